// Activations, and their gradients at a given input.
#pragma once

#include "maps.h"

enum Activation : Size { NONE = 0, RELU = 1, RELU6 = 2, HARD_SWISH = 3 };

// The activation of z.
template <class T, Size kind> inline Vec<T> activated(Vec<T> z) {
    const Vec<T> zero{};
    if constexpr (kind == RELU) return larger<T>(z, zero);
    if constexpr (kind == RELU6) return smaller<T>(larger<T>(z, zero), all<T>(6));
    if constexpr (kind == HARD_SWISH) return z * smaller<T>(larger<T>(z + T(3), zero), all<T>(6)) * T(1.0 / 6);
    return z;
}

// The gradient of the activation's input z, given the gradient of its output.
template <class T, Size kind> inline Vec<T> sloped(Vec<T> gradient, Vec<T> z) {
    const Vec<T> zero{};
    if constexpr (kind == RELU) return z > zero ? gradient : zero;
    if constexpr (kind == RELU6) return z > zero ? (z < all<T>(6) ? gradient : zero) : zero;
    if constexpr (kind == HARD_SWISH) {
        const Vec<T> inside = gradient * (z * T(1.0 / 3) + T(0.5));
        return z >= all<T>(3) ? gradient : (z <= all<T>(-3) ? zero : inside);
    }
    return gradient;
}

// Calls `run` with the activation as a compile-time constant.
template <class Run> inline void with_activation(Size kind, Run run) {
    switch (kind) {
        case RELU: return run(std::integral_constant<Size, RELU>{});
        case RELU6: return run(std::integral_constant<Size, RELU6>{});
        case HARD_SWISH: return run(std::integral_constant<Size, HARD_SWISH>{});
        default: return run(std::integral_constant<Size, NONE>{});
    }
}

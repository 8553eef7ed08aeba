// A depthwise convolution of activation(norm(x)) followed by a pointwise one, for one image at a time. The intermediate
// map stays in the cache, and is computed again for gradients.
#pragma once

#include "depthwise.h"
#include "product.h"

// Gradient of the result y. If a norm after it deferred its gradient, this is first + second g + third y (see
// `Passed`), computed on reading; if `coefficients` is null, it is g itself.
template <class T> struct Given {
    const T *gradient, *y, *coefficients;

    Vec<T> at(Size place, Size first, Size lanes, Size channels) const {
        const Vec<T> g = load(gradient + place, lanes);
        if (!coefficients) return g;
        const T* of = coefficients + first;
        return load(of, lanes) + load(of + channels, lanes) * g + load(of + 2 * channels, lanes) * load(y + place, lanes);
    }
};

// Computes y [pixels, outputs] and its mean and variance per channel; `pointwise` is [outputs, channels].
template <class T>
void separable_forward(const T* x, Geometry g, Norm<T> norm, Size activation, const T* filter, const T* pointwise,
                       Size outputs, T* y, T* mean, T* variance, Size threads) {
    const Size blocks = blocks_of(g.channels, LANES<T>), taps = g.taps(), columns = g.plane_width();
    const Size pixels = g.out_height * g.out_width, wide = blocks_of(outputs, LANES<T>) * LANES<T>;
    const std::vector<T> filters = in_blocks(filter, g.channels, taps);
    const std::vector<Size> offsets = offsets_of(g);
    const Matrix<T> matrix(pointwise, g.channels, outputs, true);
    std::vector<T> parts(g.images * 2 * wide);
    with_activation(activation, [&](auto kind) {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (Size image = 0; image < g.images; image++) {
            static thread_local Plane<T> memory;
            Vec<T>* plane = memory.of(g.plane_height() * columns + taps + blocks * pixels + wide / LANES<T> * 2);
            Vec<T>*weights = plane + g.plane_height() * columns, *between = weights + taps;
            for (Size block = 0; block < blocks; block++) {
                const Size first = block * LANES<T>, lanes = std::min(LANES<T>, g.channels - first);
                std::memcpy(weights, &filters[block * taps * LANES<T>], taps * sizeof(Vec<T>));
                to_plane<T, kind()>(x + image * g.height * g.width * g.channels + first, g,
                                    Scaled<T>(norm, first, lanes), !norm.inverse, lanes, plane);
                filtered<T>(plane, g, offsets, weights, between + block * pixels);
            }
            T* to = y + image * pixels * outputs;
            multiply<T>(reinterpret_cast<T*>(between), pixels, pixels, matrix, [&](Size pixel, Size block, Vec<T> sum) {
                const Size first = block * LANES<T>;
                store(to + pixel * outputs + first, sum, std::min(LANES<T>, outputs - first));
            });
            for (Size first = 0; first < outputs; first += LANES<T>) {
                const Size lanes = std::min(LANES<T>, outputs - first);
                Vec<T> sum{}, square{};
                for (Size pixel = 0; pixel < pixels; pixel++) sum += load(to + pixel * outputs + first, lanes);
                const Vec<T> middle = sum * T(1.0 / pixels);
                for (Size pixel = 0; pixel < pixels; pixel++) {
                    const Vec<T> d = load(to + pixel * outputs + first, lanes) - middle;
                    square += d * d;
                }
                store(&parts[image * 2 * wide + first], middle);
                store(&parts[(image * 2 + 1) * wide + first], square);
            }
        }
    });
    for (Size c = 0; c < outputs; c++) {
        double sum = 0, square = 0;
        for (Size image = 0; image < g.images; image++) sum += parts[image * 2 * wide + c];
        const double middle = sum / g.images;
        for (Size image = 0; image < g.images; image++) {
            const double d = parts[image * 2 * wide + c] - middle;
            square += parts[(image * 2 + 1) * wide + c] + pixels * d * d;
        }
        mean[c] = T(middle), variance[c] = T(square / (g.images * pixels));
    }
}

// Gradients of x, of the filter [channels, taps], of `pointwise` [outputs, channels] and of the norm's weight and bias,
// where they are not null. If `passed_on` is not null, the norm's gradient is deferred to the operation that produced
// x: its coefficients [3, channels] are written there, and `to_x` is the gradient of the norm's output.
template <class T>
void separable_backward(Given<T> given, const T* x, Geometry g, Norm<T> norm, Size activation, const T* filter,
                        const T* pointwise, Size outputs, T* to_x, T* to_filter, T* to_pointwise, T* to_weight,
                        T* to_bias, T* passed_on, Size threads) {
    const Size blocks = blocks_of(g.channels, LANES<T>), taps = g.taps(), wide = blocks * LANES<T>;
    const Size pixels = g.height * g.width, out_pixels = g.out_height * g.out_width;
    const Size plane_size = g.plane_height() * g.plane_width(), out_blocks = blocks_of(outputs, LANES<T>);
    const Size gradient_columns = g.gradient_width(), gradient_size = g.gradient_height() * gradient_columns;
    const Size begin = g.above() * gradient_columns + g.aside();
    const std::vector<T> filters = in_blocks(filter, g.channels, taps);
    const std::vector<Size> offsets = offsets_of(g);
    const Matrix<T> matrix(pointwise, outputs, g.channels, false);
    std::vector<Size> places(out_pixels);  // positions of the result's pixels in the plane of the gradient
    for (Size pixel = 0; pixel < out_pixels; pixel++)
        places[pixel] = begin + pixel / g.out_width * gradient_columns + pixel % g.out_width;
    std::vector<T> filter_parts(to_filter ? g.images * taps * wide : 0);
    std::vector<T> pointwise_parts(to_pointwise ? g.images * outputs * wide : 0);
    std::vector<T> parts(norm.inverse ? g.images * 2 * wide : 0);
    with_activation(activation, [&](auto kind) {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (Size image = 0; image < g.images; image++) {
            static thread_local Plane<T> memory;
            Vec<T>* plane = memory.of(plane_size + blocks * gradient_size + out_blocks * out_pixels + blocks * out_pixels + 2 * taps);
            Vec<T>*inner = plane + plane_size, *outer_planes = inner + blocks * gradient_size;
            Vec<T>*between = outer_planes + out_blocks * out_pixels, *weights = between + blocks * out_pixels;
            Vec<T>* chosen = weights + taps;
            for (Size block = 0; block < out_blocks; block++) {
                const Size first = block * LANES<T>, lanes = std::min(LANES<T>, outputs - first);
                for (Size pixel = 0; pixel < out_pixels; pixel++)
                    outer_planes[block * out_pixels + pixel] =
                        given.at((image * out_pixels + pixel) * outputs + first, first, lanes, outputs);
            }
            std::fill_n(inner, blocks * gradient_size, Vec<T>{});
            multiply<T>(reinterpret_cast<T*>(outer_planes), out_pixels, out_pixels, matrix,
                        [&](Size pixel, Size block, Vec<T> sum) {
                            inner[block * gradient_size + places[pixel]] = sum;
                        });
            for (Size block = 0; block < blocks; block++) {
                const Size first = block * LANES<T>, lanes = std::min(LANES<T>, g.channels - first);
                const Size at = image * pixels * g.channels + first;
                const Vec<T>* gradient = inner + block * gradient_size + begin;
                const Scaled<T> scaled(norm, first, lanes);
                std::memcpy(weights, &filters[block * taps * LANES<T>], taps * sizeof(Vec<T>));
                if (to_filter || to_pointwise)
                    to_plane<T, kind()>(x + at, g, scaled, !norm.inverse, lanes, plane);
                if (to_filter)
                    filter_gradient<T>(plane, gradient, g, offsets, wide, &filter_parts[image * taps * wide + first]);
                if (to_pointwise) filtered<T>(plane, g, offsets, weights, between + block * out_pixels);
                if (to_x)
                    map_gradient<T, kind()>(gradient, x + at, g, scaled, norm.inverse, weights, chosen, lanes,
                                            to_x + at, parts.data() + image * 2 * wide + first, wide);
            }
            if (to_pointwise)
                outer<T>(reinterpret_cast<T*>(outer_planes), outputs, reinterpret_cast<T*>(between), g.channels,
                         out_pixels, &pointwise_parts[image * outputs * wide]);
        }
    });
    if (to_filter) sum_filters(filter_parts, g, wide, to_filter);
    if (to_pointwise) {
        std::vector<T> sums(outputs * wide);
        summed(pointwise_parts.data(), g.images, outputs * wide, sums.data());
        for (Size row = 0; row < outputs; row++)
            std::copy_n(&sums[row * wide], g.channels, to_pointwise + row * g.channels);
    }
    if (!to_x || !norm.inverse) return;
    std::vector<T> sums(2 * wide);
    summed(parts.data(), g.images, 2 * wide, sums.data());
    if (!passed_on)
        return through_norm(x, g.images * pixels, g.channels, norm, sums, to_x, to_weight, to_bias, threads);
    if (to_bias) std::copy_n(sums.data(), g.channels, to_bias);
    if (to_weight) std::copy_n(sums.data() + wide, g.channels, to_weight);
    pass_on(norm, T(1), sums.data(), sums.data() + wide, g.images * pixels, g.channels, passed_on);
}

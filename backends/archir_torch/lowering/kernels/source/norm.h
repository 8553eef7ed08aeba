// Batch norm in training with an activation after it: y = activation(weight (x - mean) / deviation + bias) per channel.
#pragma once

#include <cmath>
#include <type_traits>

#include "activations.h"

// A norm with the statistics of the batch. If `inverse` (1 / deviation) is null, x is passed through unchanged.
template <class T> struct Norm {
    const T *mean, *inverse, *weight, *bias;
};

// One block of channels of a norm, as the affine function z = scale x + shift.
template <class T> struct Scaled {
    Vec<T> scale, shift, mean, inverse;

    Scaled(const Norm<T>& norm, Size first, Size lanes) {
        scale = all<T>(1), shift = mean = Vec<T>{}, inverse = all<T>(1);
        if (!norm.inverse) return;
        mean = load(norm.mean + first, lanes), inverse = load(norm.inverse + first, lanes);
        scale = norm.weight ? inverse * load(norm.weight + first, lanes) : inverse;
        shift = (norm.bias ? load(norm.bias + first, lanes) : Vec<T>{}) - mean * scale;
    }

    Vec<T> of(Vec<T> x) const { return scale * x + shift; }
};

// Gradient of a norm's input x, first + second g + third x, where g is the gradient of its output. The coefficients
// follow from the sums over all pixels of g (`sum`) and of g (x - mean) / deviation (`product`).
template <class T> struct Passed {
    Vec<T> first, second, third;

    Passed(const Scaled<T>& norm, Vec<T> sum, Vec<T> product, Size pixels) {
        const T part = T(1) / T(pixels);
        second = norm.scale;
        third = -norm.scale * norm.inverse * product * part;
        first = -norm.scale * sum * part - third * norm.mean;
    }

    Vec<T> of(Vec<T> gradient, Vec<T> x) const { return first + second * gradient + third * x; }
};

// Writes the coefficients of `Passed`, [3][channels], for a norm whose result is multiplied by `share`.
template <class T>
void pass_on(const Norm<T>& norm, T share, const T* sum, const T* product, Size pixels, Size channels, T* to) {
    for (Size first = 0; first < channels; first += LANES<T>) {
        const Size lanes = std::min(LANES<T>, channels - first);
        Scaled<T> scaled(norm, first, lanes);
        scaled.scale *= share;
        const Passed<T> passed(scaled, load(sum + first, lanes), load(product + first, lanes), pixels);
        store(to + first, passed.first, lanes);
        store(to + channels + first, passed.second, lanes);
        store(to + 2 * channels + first, passed.third, lanes);
    }
}

// Adds up `count` rows of `width` numbers in their order, in double precision.
template <class T> void summed(const T* rows, Size count, Size width, T* sums) {
    constexpr Size TOGETHER = 64;
    for (Size begin = 0; begin < width; begin += TOGETHER) {
        const Size many = std::min(TOGETHER, width - begin);
        double found[TOGETHER] = {};
        for (Size row = 0; row < count; row++)
            for (Size i = 0; i < many; i++) found[i] += rows[row * width + begin + i];
        for (Size i = 0; i < many; i++) sums[begin + i] = T(found[i]);
    }
}

// Turns `to_x` in place from the gradient of a norm's output into that of its input. `sums` [2][channels, rounded up to
// whole blocks] are the sums that `Passed` needs.
template <class T>
void through_norm(const T* x, Size pixels, Size channels, const Norm<T>& norm, const std::vector<T>& sums, T* to_x,
                  T* to_weight, T* to_bias, Size threads) {
    const Size wide = sums.size() / 2;
    if (to_bias) std::copy_n(sums.data(), channels, to_bias);
    if (to_weight) std::copy_n(sums.data() + wide, channels, to_weight);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (Size chunk = 0; chunk < chunks_of(pixels); chunk++)
        for (Size first = 0; first < channels; first += LANES<T>) {
            const Size lanes = std::min(LANES<T>, channels - first), end = std::min(pixels, (chunk + 1) * CHUNK);
            const Passed<T> passed(Scaled<T>(norm, first, lanes), load(&sums[first]), load(&sums[wide + first]), pixels);
            for (Size pixel = chunk * CHUNK; pixel < end; pixel++) {
                const Size at = pixel * channels + first;
                store(to_x + at, passed.of(load(to_x + at, lanes), load(x + at, lanes)), lanes);
            }
        }
}

// Computes mean and 1 / deviation of each channel, and moves running statistics towards them by `momentum`.
template <class T>
void moments(const T* x, Size pixels, Size channels, double eps, double momentum, T* mean, T* inverse,
             T* running_mean, T* running_var, Size threads) {
    const Size chunks = chunks_of(pixels), wide = blocks_of(channels, LANES<T>) * LANES<T>;
    std::vector<T> parts(chunks * 2 * wide);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (Size chunk = 0; chunk < chunks; chunk++) {
        const Size end = std::min(pixels, (chunk + 1) * CHUNK);
        for (Size first = 0; first < channels; first += LANES<T>) {
            const Size lanes = std::min(LANES<T>, channels - first);
            const Vec<T> around = load(x + first, lanes);  // first pixel: near the mean, so that squares lose no digits
            Vec<T> sum[4] = {}, square[4] = {};
            Size pixel = chunk * CHUNK;
            for (; pixel + 4 <= end; pixel += 4)
                for (Size i = 0; i < 4; i++) {
                    const Vec<T> d = load(x + (pixel + i) * channels + first, lanes) - around;
                    sum[i] += d, square[i] += d * d;
                }
            for (; pixel < end; pixel++) {
                const Vec<T> d = load(x + pixel * channels + first, lanes) - around;
                sum[0] += d, square[0] += d * d;
            }
            store(&parts[chunk * 2 * wide + first], Vec<T>(sum[0] + sum[1] + sum[2] + sum[3]));
            store(&parts[chunk * 2 * wide + wide + first], Vec<T>(square[0] + square[1] + square[2] + square[3]));
        }
    }
    for (Size c = 0; c < channels; c++) {
        double sum = 0, square = 0;
        for (Size chunk = 0; chunk < chunks; chunk++)
            sum += parts[chunk * 2 * wide + c], square += parts[chunk * 2 * wide + wide + c];
        const double off = sum / pixels, variance = std::max(0.0, square / pixels - off * off);
        mean[c] = T(x[c] + off), inverse[c] = T(1 / std::sqrt(variance + eps));
        if (!running_mean) continue;
        running_mean[c] += T(momentum * (x[c] + off - running_mean[c]));
        running_var[c] += T(momentum * (variance * pixels / std::max<Size>(1, pixels - 1) - running_var[c]));
    }
}

// Computes 1 / deviation from mean and variance that are given, and moves running statistics towards them.
template <class T>
void statistics(const T* mean, const T* variance, Size pixels, Size channels, double eps, double momentum, T* inverse,
                T* running_mean, T* running_var) {
    for (Size c = 0; c < channels; c++) {
        inverse[c] = T(1 / std::sqrt(double(variance[c]) + eps));
        running_mean[c] += T(momentum * (mean[c] - running_mean[c]));
        running_var[c] += T(momentum * (double(variance[c]) * pixels / std::max<Size>(1, pixels - 1) - running_var[c]));
    }
}

template <class T>
void norm_forward(const T* x, Size pixels, Size channels, Norm<T> norm, Size activation, T* y, Size threads) {
    with_activation(activation, [&](auto kind) {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (Size chunk = 0; chunk < chunks_of(pixels); chunk++)
            for (Size first = 0; first < channels; first += LANES<T>) {
                const Size lanes = std::min(LANES<T>, channels - first), end = std::min(pixels, (chunk + 1) * CHUNK);
                const Scaled<T> scaled(norm, first, lanes);
                for (Size pixel = chunk * CHUNK; pixel < end; pixel++) {
                    const Size at = pixel * channels + first;
                    store(y + at, activated<T, kind()>(scaled.of(load(x + at, lanes))), lanes);
                }
            }
    });
}

// Gradients of x and, if not null, of weight and bias, which are the sums that the gradient of x needs anyway. `to_x`
// may be the same memory as `gradient`.
template <class T>
void norm_backward(const T* gradient, const T* x, Size pixels, Size channels, Norm<T> norm, Size activation, T* to_x,
                   T* to_weight, T* to_bias, Size threads) {
    const Size chunks = chunks_of(pixels), wide = blocks_of(channels, LANES<T>) * LANES<T>;
    std::vector<T> parts(norm.inverse ? chunks * 2 * wide : 0), sums(2 * wide);
    with_activation(activation, [&](auto kind) {
        if (norm.inverse) {
#pragma omp parallel for schedule(static) num_threads(threads)
            for (Size chunk = 0; chunk < chunks; chunk++)
                for (Size first = 0; first < channels; first += LANES<T>) {
                    const Size lanes = std::min(LANES<T>, channels - first);
                    const Size end = std::min(pixels, (chunk + 1) * CHUNK);
                    const Scaled<T> scaled(norm, first, lanes);
                    Vec<T> sum[2] = {}, product[2] = {};
                    for (Size pixel = chunk * CHUNK; pixel < end; pixel++) {
                        const Size at = pixel * channels + first;
                        const Vec<T> read = load(x + at, lanes);
                        const Vec<T> g = sloped<T, kind()>(load(gradient + at, lanes), scaled.of(read));
                        sum[pixel % 2] += g, product[pixel % 2] += g * (read - scaled.mean);
                    }
                    store(&parts[chunk * 2 * wide + first], Vec<T>(sum[0] + sum[1]));
                    store(&parts[chunk * 2 * wide + wide + first], Vec<T>((product[0] + product[1]) * scaled.inverse));
                }
            summed(parts.data(), chunks, 2 * wide, sums.data());
            if (to_bias) std::copy_n(sums.data(), channels, to_bias);
            if (to_weight) std::copy_n(sums.data() + wide, channels, to_weight);
        }
        if (!to_x) return;
#pragma omp parallel for schedule(static) num_threads(threads)
        for (Size chunk = 0; chunk < chunks; chunk++)
            for (Size first = 0; first < channels; first += LANES<T>) {
                const Size lanes = std::min(LANES<T>, channels - first), end = std::min(pixels, (chunk + 1) * CHUNK);
                const Scaled<T> scaled(norm, first, lanes);
                Passed<T> passed(scaled, load(&sums[first]), load(&sums[wide + first]), pixels);
                for (Size pixel = chunk * CHUNK; pixel < end; pixel++) {
                    const Size at = pixel * channels + first;
                    const Vec<T> read = load(x + at, lanes);
                    const Vec<T> g = sloped<T, kind()>(load(gradient + at, lanes), scaled.of(read));
                    store(to_x + at, norm.inverse ? passed.of(g, read) : g, lanes);
                }
            }
    });
}

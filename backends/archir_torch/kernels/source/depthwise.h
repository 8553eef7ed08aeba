// Depthwise convolution of activation(norm(x)), and its gradients, an image and a block of channels at a time: what the
// filter reads is copied to a plane with zeros around it, which stays in the cache, and so does its gradient.
#pragma once

#include "norm.h"

struct Geometry {
    Size images, height, width, channels, out_height, out_width, kernel_height, kernel_width, stride, dilation, top,
        left;

    Size taps() const { return kernel_height * kernel_width; }
    // Rows and columns of the plane that the filter reads.
    Size plane_height() const { return (out_height - 1) * stride + dilation * (kernel_height - 1) + 1; }
    Size plane_width() const { return (out_width - 1) * stride + dilation * (kernel_width - 1) + 1; }
    // Rows and columns of zeros before the gradient, and of its plane.
    static Size before(Size reach, Size pad, Size stride) { return std::max<Size>(0, (reach - pad + stride - 1) / stride); }
    Size above() const { return before(dilation * (kernel_height - 1), top, stride); }
    Size aside() const { return before(dilation * (kernel_width - 1), left, stride); }
    Size gradient_height() const { return above() + std::max(out_height, (height - 1 + top) / stride + 1); }
    Size gradient_width() const { return aside() + std::max(out_width, (width - 1 + left) / stride + 1); }
};

// A buffer of blocks that a thread keeps from call to call.
template <class T> struct Plane {
    std::vector<T> memory;

    Vec<T>* of(Size blocks) {
        if (Size(memory.size()) < (blocks + 1) * LANES<T>) memory.resize((blocks + 1) * LANES<T>);
        return reinterpret_cast<Vec<T>*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) / 64 * 64);
    }
};

// Filters [channels, taps] as [block][tap][lane].
template <class T> std::vector<T> in_blocks(const T* filter, Size channels, Size taps) {
    std::vector<T> found(blocks_of(channels, LANES<T>) * taps * LANES<T>);
    for (Size c = 0; c < channels; c++)
        for (Size tap = 0; tap < taps; tap++)
            found[(c / LANES<T> * taps + tap) * LANES<T> + c % LANES<T>] = filter[c * taps + tap];
    return found;
}

// y[i] = sum over taps of weights[tap] * plane[i * step + offsets[tap]], for `count` pixels of a row; `put(i, y)`.
template <class T, class Put>
inline void gather(const Vec<T>* plane, Size step, const std::vector<Size>& offsets, const Vec<T>* weights, Size count,
                   Put put) {
    constexpr Size TOGETHER = 8;
    const Size taps = offsets.size();
    Size i = 0;
    for (; i + TOGETHER <= count; i += TOGETHER) {
        Vec<T> sums[TOGETHER] = {};
        for (Size tap = 0; tap < taps; tap++) {
            const Vec<T> weight = weights[tap];
            const Vec<T>* from = plane + i * step + offsets[tap];
#pragma GCC unroll 8
            for (Size j = 0; j < TOGETHER; j++) sums[j] += weight * from[j * step];
        }
        for (Size j = 0; j < TOGETHER; j++) put(i + j, sums[j]);
    }
    for (; i < count; i++) {
        Vec<T> sum{};
        for (Size tap = 0; tap < taps; tap++) sum += weights[tap] * plane[i * step + offsets[tap]];
        put(i, sum);
    }
}

// Copies activation(norm(x)) of an image's block to the plane.
template <class T, Size kind>
inline void to_plane(const T* x, const Geometry& g, const Scaled<T>& scaled, bool plain, Size lanes, Vec<T>* plane) {
    const Size rows = g.plane_height(), columns = g.plane_width();
    const Size begin = std::min(g.left, columns), end = std::max(begin, std::min(columns, g.left + g.width));
    for (Size row = 0; row < rows; row++) {
        Vec<T>* to = plane + row * columns;
        const Size from = row - g.top;
        if (from < 0 || from >= g.height) {
            std::fill_n(to, columns, Vec<T>{});
            continue;
        }
        std::fill_n(to, begin, Vec<T>{});
        std::fill_n(to + end, columns - end, Vec<T>{});
        const T* line = x + (from * g.width - g.left) * g.channels;
        if (plain)
            for (Size i = begin; i < end; i++) to[i] = activated<T, kind>(load(line + i * g.channels, lanes));
        else
            for (Size i = begin; i < end; i++)
                to[i] = activated<T, kind>(scaled.of(load(line + i * g.channels, lanes)));
    }
}

template <class T>
void depthwise_forward(const T* x, Geometry g, Norm<T> norm, Size activation, const T* filter, T* y, Size threads) {
    const Size blocks = blocks_of(g.channels, LANES<T>), taps = g.taps(), columns = g.plane_width();
    const std::vector<T> filters = in_blocks(filter, g.channels, taps);
    std::vector<Size> offsets;
    for (Size i = 0; i < g.kernel_height; i++)
        for (Size j = 0; j < g.kernel_width; j++) offsets.push_back(g.dilation * (i * columns + j));
    with_activation(activation, [&](auto kind) {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (Size job = 0; job < g.images * blocks; job++) {
            static thread_local Plane<T> memory;
            const Size image = job / blocks, first = job % blocks * LANES<T>;
            const Size lanes = std::min(LANES<T>, g.channels - first);
            Vec<T>* plane = memory.of(g.plane_height() * columns + taps);
            Vec<T>* weights = plane + g.plane_height() * columns;
            std::memcpy(weights, &filters[job % blocks * taps * LANES<T>], taps * sizeof(Vec<T>));
            const Scaled<T> scaled(norm, first, lanes);
            to_plane<T, kind()>(x + image * g.height * g.width * g.channels + first, g, scaled, !norm.inverse, lanes, plane);
            for (Size row = 0; row < g.out_height; row++) {
                T* to = y + (image * g.out_height + row) * g.out_width * g.channels + first;
                gather<T>(plane + row * g.stride * columns, g.stride, offsets, weights, g.out_width,
                          [&](Size i, Vec<T> sum) { store(to + i * g.channels, sum, lanes); });
            }
        }
    });
}

// sums[tap] = sum over pixels of plane[pixel + offsets[tap]] * gradient[pixel], a few taps at a time.
template <class T, Size COUNT>
inline void correlate(const Vec<T>* plane, Size columns, const Vec<T>* gradient, Size gradient_columns, const Geometry& g,
                      const Size* offsets, Vec<T>* sums) {
    Vec<T> found[COUNT] = {};
    for (Size row = 0; row < g.out_height; row++) {
        const Vec<T>* from = plane + row * g.stride * columns;
        const Vec<T>* by = gradient + row * gradient_columns;
        for (Size i = 0; i < g.out_width; i++) {
            const Vec<T> one = by[i];
#pragma GCC unroll 9
            for (Size tap = 0; tap < COUNT; tap++) found[tap] += one * from[i * g.stride + offsets[tap]];
        }
    }
    for (Size tap = 0; tap < COUNT; tap++) sums[tap] = found[tap];
}

// Gradients of x [images, height, width, channels] and of the filter [channels, taps], where they are not null; of a
// norm's weight and bias too, if there is one.
template <class T>
void depthwise_backward(const T* gradient, const T* x, Geometry g, Norm<T> norm, Size activation, const T* filter,
                        T* to_x, T* to_filter, T* to_weight, T* to_bias, Size threads) {
    const Size blocks = blocks_of(g.channels, LANES<T>), taps = g.taps(), columns = g.plane_width();
    const Size wide = blocks * LANES<T>, pixels = g.height * g.width;
    const Size gradient_columns = g.gradient_width(), plane_size = g.plane_height() * columns;
    const Size gradient_size = g.gradient_height() * gradient_columns;
    const std::vector<T> filters = in_blocks(filter, g.channels, taps);
    std::vector<T> filter_parts(to_filter ? g.images * taps * wide : 0);
    std::vector<T> parts(to_x && norm.inverse ? g.images * 2 * wide : 0);
    std::vector<Size> offsets;
    for (Size i = 0; i < g.kernel_height; i++)
        for (Size j = 0; j < g.kernel_width; j++) offsets.push_back(g.dilation * (i * columns + j));
    with_activation(activation, [&](auto kind) {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (Size job = 0; job < g.images * blocks; job++) {
            static thread_local Plane<T> memory;
            const Size image = job / blocks, block = job % blocks, first = block * LANES<T>;
            const Size lanes = std::min(LANES<T>, g.channels - first);
            Vec<T>* plane = memory.of(plane_size + gradient_size + 2 * taps);
            Vec<T>* given = plane + plane_size;
            Vec<T>*weights = given + gradient_size, *chosen = weights + taps;
            std::memcpy(weights, &filters[block * taps * LANES<T>], taps * sizeof(Vec<T>));
            const Scaled<T> scaled(norm, first, lanes);
            const T* image_x = x + image * pixels * g.channels + first;
            std::fill_n(given, gradient_size, Vec<T>{});
            const Vec<T>* begin = given + g.above() * gradient_columns + g.aside();
            for (Size row = 0; row < g.out_height; row++) {
                const T* from = gradient + (image * g.out_height + row) * g.out_width * g.channels + first;
                Vec<T>* to = given + (row + g.above()) * gradient_columns + g.aside();
                for (Size i = 0; i < g.out_width; i++) to[i] = load(from + i * g.channels, lanes);
            }
            if (to_filter) {
                to_plane<T, kind()>(image_x, g, scaled, !norm.inverse, lanes, plane);
                Vec<T> sums[9];
                for (Size tap = 0; tap < taps;) {
                    const Size* at = &offsets[tap];
                    Size count = taps - tap >= 9 ? 9 : taps - tap >= 5 ? 5 : taps - tap >= 3 ? 3 : 1;
                    if (count == 9) correlate<T, 9>(plane, columns, begin, gradient_columns, g, at, sums);
                    if (count == 5) correlate<T, 5>(plane, columns, begin, gradient_columns, g, at, sums);
                    if (count == 3) correlate<T, 3>(plane, columns, begin, gradient_columns, g, at, sums);
                    if (count == 1) correlate<T, 1>(plane, columns, begin, gradient_columns, g, at, sums);
                    for (Size i = 0; i < count; i++) store(&filter_parts[(image * taps + tap + i) * wide + first], sums[i]);
                    tap += count;
                }
            }
            if (!to_x) continue;
            Vec<T> sum{}, product{};
            T* image_to = to_x + image * pixels * g.channels + first;
            // rows and columns of one phase meet the same taps
            for (Size phase_row = 0; phase_row < std::min(g.stride, g.height); phase_row++)
                for (Size phase = 0; phase < std::min(g.stride, g.width); phase++) {
                    std::vector<Size> reach;
                    for (Size i = 0; i < g.kernel_height; i++)
                        for (Size j = 0; j < g.kernel_width; j++) {
                            const Size down = phase_row + g.top - g.dilation * i, along = phase + g.left - g.dilation * j;
                            if (down % g.stride || along % g.stride) continue;
                            chosen[reach.size()] = weights[i * g.kernel_width + j];
                            reach.push_back(down / g.stride * gradient_columns + along / g.stride);
                        }
                    for (Size row = phase_row; row < g.height; row += g.stride) {
                        const Size at = (row * g.width + phase) * g.channels, step = g.stride * g.channels;
                        gather<T>(begin + row / g.stride * gradient_columns, 1, reach, chosen,
                                  (g.width - phase + g.stride - 1) / g.stride, [&](Size i, Vec<T> found) {
                                      if (kind() == NONE && !norm.inverse)
                                          return store(image_to + at + i * step, found, lanes);
                                      const Vec<T> read = load(image_x + at + i * step, lanes);
                                      found = sloped<T, kind()>(found, scaled.of(read));
                                      sum += found, product += found * (read - scaled.mean);
                                      store(image_to + at + i * step, found, lanes);
                                  });
                    }
                }
            if (norm.inverse) {
                store(&parts[image * 2 * wide + first], sum);
                store(&parts[(image * 2 + 1) * wide + first], Vec<T>(product * scaled.inverse));
            }
        }
    });
    if (to_filter) {
        std::vector<T> sums(taps * wide);
        summed(filter_parts.data(), g.images, taps * wide, sums.data());
        for (Size c = 0; c < g.channels; c++)
            for (Size tap = 0; tap < taps; tap++) to_filter[c * taps + tap] = sums[tap * wide + c];
    }
    if (!to_x || !norm.inverse) return;
    std::vector<T> sums(2 * wide);
    summed(parts.data(), g.images, 2 * wide, sums.data());
    if (to_bias) std::copy_n(sums.data(), g.channels, to_bias);
    if (to_weight) std::copy_n(sums.data() + wide, g.channels, to_weight);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (Size chunk = 0; chunk < chunks_of(g.images * pixels); chunk++)
        for (Size first = 0; first < g.channels; first += LANES<T>) {
            const Size lanes = std::min(LANES<T>, g.channels - first);
            const Size end = std::min(g.images * pixels, (chunk + 1) * CHUNK);
            const Passed<T> passed(Scaled<T>(norm, first, lanes), load(&sums[first]), load(&sums[wide + first]),
                                   g.images * pixels);
            for (Size pixel = chunk * CHUNK; pixel < end; pixel++) {
                const Size at = pixel * g.channels + first;
                store(to_x + at, passed.of(load(to_x + at, lanes), load(x + at, lanes)), lanes);
            }
        }
}

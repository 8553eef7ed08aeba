// Depthwise convolution of activation(norm(x)), and its gradients, for one image and block of channels at a time. The
// filter's input is copied to a plane with zero padding; this plane and its gradient stay in the cache.
#pragma once

#include "norm.h"

struct Geometry {
    Size images, height, width, channels, out_height, out_width, kernel_height, kernel_width, stride, dilation, top,
        left;

    Size taps() const { return kernel_height * kernel_width; }
    // Height and width of the plane that the filter reads.
    Size plane_height() const { return (out_height - 1) * stride + dilation * (kernel_height - 1) + 1; }
    Size plane_width() const { return (out_width - 1) * stride + dilation * (kernel_width - 1) + 1; }
    // Rows of zeros above and columns of zeros left of the gradient in its plane, and height and width of that plane.
    static Size before(Size reach, Size pad, Size stride) { return std::max<Size>(0, (reach - pad + stride - 1) / stride); }
    Size above() const { return before(dilation * (kernel_height - 1), top, stride); }
    Size aside() const { return before(dilation * (kernel_width - 1), left, stride); }
    Size gradient_height() const { return above() + std::max(out_height, (height - 1 + top) / stride + 1); }
    Size gradient_width() const { return aside() + std::max(out_width, (width - 1 + left) / stride + 1); }
};

// A buffer of blocks, aligned to registers, that a thread reuses from call to call.
template <class T> struct Plane {
    std::vector<T> memory;

    Vec<T>* of(Size blocks) {
        if (Size(memory.size()) < (blocks + 1) * LANES<T>) memory.resize((blocks + 1) * LANES<T>);
        return reinterpret_cast<Vec<T>*>((reinterpret_cast<std::uintptr_t>(memory.data()) + BYTES - 1) / BYTES * BYTES);
    }
};

// Rearranges filters [channels, taps] as [block][tap][lane].
template <class T> std::vector<T> in_blocks(const T* filter, Size channels, Size taps) {
    std::vector<T> found(blocks_of(channels, LANES<T>) * taps * LANES<T>);
    for (Size c = 0; c < channels; c++)
        for (Size tap = 0; tap < taps; tap++)
            found[(c / LANES<T> * taps + tap) * LANES<T> + c % LANES<T>] = filter[c * taps + tap];
    return found;
}

// Calls put(i, y) with y = sum over taps of weights[tap] * plane[i * step + offsets[tap]], for `count` pixels of a row.
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

// Offsets in the plane of the pixels that the filter's taps read, relative to the first of them.
inline std::vector<Size> offsets_of(const Geometry& g) {
    std::vector<Size> offsets;
    for (Size i = 0; i < g.kernel_height; i++)
        for (Size j = 0; j < g.kernel_width; j++) offsets.push_back(g.dilation * (i * g.plane_width() + j));
    return offsets;
}

// Adds up filter gradients per image, [image][tap][lane], to those of the filter, [channels, taps].
template <class T> void sum_filters(const std::vector<T>& parts, const Geometry& g, Size wide, T* to) {
    std::vector<T> sums(g.taps() * wide);
    summed(parts.data(), g.images, g.taps() * wide, sums.data());
    for (Size c = 0; c < g.channels; c++)
        for (Size tap = 0; tap < g.taps(); tap++) to[c * g.taps() + tap] = sums[tap * wide + c];
}

// Copies activation(norm(x)) of one image and block to the plane, with zero padding.
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

// Convolves a plane, and writes the result pixel by pixel.
template <class T>
inline void filtered(const Vec<T>* plane, const Geometry& g, const std::vector<Size>& offsets, const Vec<T>* weights,
                     Vec<T>* to) {
    for (Size row = 0; row < g.out_height; row++)
        gather<T>(plane + row * g.stride * g.plane_width(), g.stride, offsets, weights, g.out_width,
                  [&](Size i, Vec<T> sum) { to[row * g.out_width + i] = sum; });
}

template <class T>
void depthwise_forward(const T* x, Geometry g, Norm<T> norm, Size activation, const T* filter, T* y, Size threads) {
    const Size blocks = blocks_of(g.channels, LANES<T>), taps = g.taps(), columns = g.plane_width();
    const std::vector<T> filters = in_blocks(filter, g.channels, taps);
    const std::vector<Size> offsets = offsets_of(g);
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

// sums[tap] = sum over pixels of plane[pixel + offsets[tap]] * gradient[pixel], for COUNT taps.
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

// sums[tap] of one image and block, for all taps. `given` points to the first pixel of the gradient in its plane.
template <class T>
inline void filter_gradient(const Vec<T>* plane, const Vec<T>* given, const Geometry& g,
                            const std::vector<Size>& offsets, Size step, T* sums) {
    const Size columns = g.plane_width(), taps = g.taps(), gradient_columns = g.gradient_width();
    Vec<T> found[9];
    for (Size tap = 0; tap < taps;) {
        const Size* at = &offsets[tap];
        const Size left = taps - tap, count = left >= 9 ? 9 : left >= 5 ? 5 : left >= 3 ? 3 : 1;
        if (count == 9) correlate<T, 9>(plane, columns, given, gradient_columns, g, at, found);
        if (count == 5) correlate<T, 5>(plane, columns, given, gradient_columns, g, at, found);
        if (count == 3) correlate<T, 3>(plane, columns, given, gradient_columns, g, at, found);
        if (count == 1) correlate<T, 1>(plane, columns, given, gradient_columns, g, at, found);
        for (Size i = 0; i < count; i++) store(sums + (tap + i) * step, found[i]);
        tap += count;
    }
}

// The gradient of the norm's output for one image and block. `x` and `to` point to the block. If there is a norm,
// `sums` receives two sums over pixels: at [0] of this gradient g, and at [step] of g (x - mean) / deviation.
template <class T, Size kind>
inline void map_gradient(const Vec<T>* given, const T* x, const Geometry& g, const Scaled<T>& scaled, bool normed,
                         const Vec<T>* weights, Vec<T>* chosen, Size lanes, T* to, T* sums, Size step) {
    const Size gradient_columns = g.gradient_width();
    Vec<T> sum{}, product{};
    std::vector<Size> reach;
    // rows and columns of the same phase, modulo the stride, are read by the same taps
    for (Size phase_row = 0; phase_row < std::min(g.stride, g.height); phase_row++)
        for (Size phase = 0; phase < std::min(g.stride, g.width); phase++) {
            reach.clear();
            for (Size i = 0; i < g.kernel_height; i++)
                for (Size j = 0; j < g.kernel_width; j++) {
                    const Size down = phase_row + g.top - g.dilation * i, along = phase + g.left - g.dilation * j;
                    if (down % g.stride || along % g.stride) continue;
                    chosen[reach.size()] = weights[i * g.kernel_width + j];
                    reach.push_back(down / g.stride * gradient_columns + along / g.stride);
                }
            for (Size row = phase_row; row < g.height; row += g.stride) {
                const Size at = (row * g.width + phase) * g.channels, next = g.stride * g.channels;
                gather<T>(given + row / g.stride * gradient_columns, 1, reach, chosen,
                          (g.width - phase + g.stride - 1) / g.stride, [&](Size i, Vec<T> found) {
                              if (kind == NONE && !normed) return store(to + at + i * next, found, lanes);
                              const Vec<T> read = load(x + at + i * next, lanes);
                              found = sloped<T, kind>(found, scaled.of(read));
                              sum += found, product += found * (read - scaled.mean);
                              store(to + at + i * next, found, lanes);
                          });
            }
        }
    if (!normed) return;
    store(sums, sum);
    store(sums + step, Vec<T>(product * scaled.inverse));
}

// Gradients of x [images, height, width, channels], of the filter [channels, taps] and of the norm's weight and bias,
// if there is a norm. Gradients whose pointer is null are not computed.
template <class T>
void depthwise_backward(const T* gradient, const T* x, Geometry g, Norm<T> norm, Size activation, const T* filter,
                        T* to_x, T* to_filter, T* to_weight, T* to_bias, Size threads) {
    const Size blocks = blocks_of(g.channels, LANES<T>), taps = g.taps();
    const Size wide = blocks * LANES<T>, pixels = g.height * g.width;
    const Size gradient_columns = g.gradient_width(), plane_size = g.plane_height() * g.plane_width();
    const Size gradient_size = g.gradient_height() * gradient_columns;
    const std::vector<T> filters = in_blocks(filter, g.channels, taps);
    const std::vector<Size> offsets = offsets_of(g);
    std::vector<T> filter_parts(to_filter ? g.images * taps * wide : 0);
    std::vector<T> parts(to_x && norm.inverse ? g.images * 2 * wide : 0);
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
            const Size at = image * pixels * g.channels + first;
            std::fill_n(given, gradient_size, Vec<T>{});
            given += g.above() * gradient_columns + g.aside();
            for (Size row = 0; row < g.out_height; row++) {
                const T* from = gradient + (image * g.out_height + row) * g.out_width * g.channels + first;
                for (Size i = 0; i < g.out_width; i++)
                    given[row * gradient_columns + i] = load(from + i * g.channels, lanes);
            }
            if (to_filter) {
                to_plane<T, kind()>(x + at, g, scaled, !norm.inverse, lanes, plane);
                filter_gradient<T>(plane, given, g, offsets, wide, &filter_parts[image * taps * wide + first]);
            }
            if (to_x)
                map_gradient<T, kind()>(given, x + at, g, scaled, norm.inverse, weights, chosen, lanes, to_x + at,
                                        parts.data() + image * 2 * wide + first, wide);
        }
    });
    if (to_filter) sum_filters(filter_parts, g, wide, to_filter);
    if (to_x && norm.inverse) {
        std::vector<T> sums(2 * wide);
        summed(parts.data(), g.images, 2 * wide, sums.data());
        through_norm(x, g.images * pixels, g.channels, norm, sums, to_x, to_weight, to_bias, threads);
    }
}

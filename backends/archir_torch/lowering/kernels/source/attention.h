// Attention of each pixel to the window around it, for one image and head at a time. A plane holds one channel with
// zero padding around it, one row after the other, so that an offset in the window is the same step in memory for all
// pixels. As many pixels as a register holds are computed together; those in the padding are not used. Attention
// weights are computed again for gradients.
#pragma once

#include <cmath>

#include <limits>

#include "norm.h"

struct Attention {
    Size images, height, width, heads, channels, value_channels, kernel;  // channels of all heads together

    Size pad() const { return kernel / 2; }
    Size row() const { return width + 2 * pad(); }
    Size offsets() const { return kernel * kernel; }
    Size reach() const { return (kernel - 1) * (row() + 1); }
    // Steps in memory to the pixels of the window.
    std::vector<Size> steps() const {
        std::vector<Size> found;
        for (Size y = 0; y < kernel; y++)
            for (Size x = 0; x < kernel; x++) found.push_back(y * row() + x);
        return found;
    }
    // Offsets column by column. Consecutive ones are a row apart, so that what is written at one is not read at the
    // next one, for which processors wait, unless a row is shorter than a register.
    std::vector<Size> by_column() const {
        std::vector<Size> found;
        for (Size x = 0; x < kernel; x++)
            for (Size y = 0; y < kernel; y++) found.push_back(y * kernel + x);
        return found;
    }
    // First pixels of all registers. If its registers end within the padding, each row begins with a new one.
    template <class T> std::vector<Size> starts() const {
        const bool by_row = blocks_of(width, LANES<T>) * LANES<T> <= row();
        const Size rows = by_row ? height : 1, end = by_row ? width : height * row();
        std::vector<Size> found;
        for (Size y = 0; y < rows; y++)
            for (Size x = 0; x < end; x += LANES<T>) found.push_back(y * row() + x);
        return found;
    }
    // Size of a plane with padding columns only, rounded up to whole registers, and of a plane with zeros on all
    // sides.
    template <class T> Size inner() const { return blocks_of(height * row(), LANES<T>) * LANES<T>; }
    template <class T> Size whole() const { return inner<T>() + reach() + LANES<T>; }
};

// e^x for x <= 0, exact except for the last one or two digits.
inline Vec<float> exponential(Vec<float> x) {
    typedef std::int32_t Whole __attribute__((vector_size(BYTES)));
    x = larger<float>(x, all<float>(-87));
    const Whole n = __builtin_convertvector(x * 1.44269504f - 0.5f, Whole);
    const Vec<float> whole = __builtin_convertvector(n, Vec<float>);
    const Vec<float> r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    Vec<float> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f, p = p * r + 4.1665795894e-2f, p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f, p = p * r * r + r + 1.0f;
    const Whole power = (n + 127) << 23;
    return p * (Vec<float>)power;
}
inline Vec<double> exponential(Vec<double> x) {
    for (Size i = 0; i < LANES<double>; i++) x[i] = std::exp(x[i]);
    return x;
}

// Copies `count` channels of an image to planes, from channel `first` on; `begin` is the position of the first pixel.
template <class T>
void to_planes(const T* map, const Attention& a, Size all_channels, Size first, Size count, Size plane, Size begin, T* to) {
    std::fill_n(to, count * plane, T(0));
    for (Size y = 0; y < a.height; y++)
        for (Size x = 0; x < a.width; x++)
            for (Size c = 0; c < count; c++)
                to[c * plane + begin + y * a.row() + x] = map[(y * a.width + x) * all_channels + first + c];
}

// Copies planes back to `count` channels of an image.
template <class T>
void from_planes(const T* planes, const Attention& a, Size all_channels, Size first, Size count, Size plane, Size begin,
                 T* map) {
    for (Size y = 0; y < a.height; y++)
        for (Size x = 0; x < a.width; x++)
            for (Size c = 0; c < count; c++)
                map[(y * a.width + x) * all_channels + first + c] = planes[c * plane + begin + y * a.row() + x];
}

// Attention weights [offset] of as many pixels as a register holds; `table` [channel][offset], if not null, is added to
// the keys.
template <class T>
inline void attend(const T* query, const T* key, const T* table, const Attention& a, const std::vector<Size>& steps,
                   Size depth, Size at, Vec<T>* weights) {
    const Size inner = a.inner<T>(), whole = a.whole<T>(), offsets = a.offsets();
    Vec<T> most = all<T>(-std::numeric_limits<T>::infinity()), sum{};
    for (Size o = 0; o < offsets; o++) {
        Vec<T> logit{};
        const T* keys = key + at + steps[o];
        for (Size c = 0; c < depth; c++) {
            Vec<T> one = load(keys + c * whole);
            if (table) one += table[c * offsets + o];
            logit += load(query + c * inner + at) * one;
        }
        weights[o] = logit, most = larger<T>(most, logit);
    }
    for (Size o = 0; o < offsets; o++) sum += weights[o] = exponential(weights[o] - most);
    const Vec<T> share = 1 / sum;
    for (Size o = 0; o < offsets; o++) weights[o] *= share;
}

// query, key [images, height, width, channels], value and y [.., value_channels], table [channels, offsets] or null.
template <class T>
void attention_forward(const T* query, const T* key, const T* value, const T* table, Attention a, T* y, Size threads) {
    const Size depth = a.channels / a.heads, value_depth = a.value_channels / a.heads, offsets = a.offsets();
    const Size inner = a.inner<T>(), whole = a.whole<T>(), begin = a.pad() * a.row() + a.pad();
    const Size pixels = a.height * a.width;
    const std::vector<Size> steps = a.steps(), starts = a.starts<T>();
#pragma omp parallel for schedule(static) num_threads(threads)
    for (Size job = 0; job < a.images * a.heads; job++) {
        const Size image = job / a.heads, head = job % a.heads;
        std::vector<T> queries(depth * inner), keys(depth * whole), values(value_depth * whole), out(value_depth * inner);
        std::vector<Vec<T>> weights(offsets);
        to_planes(query + image * pixels * a.channels, a, a.channels, head * depth, depth, inner, 0, queries.data());
        to_planes(key + image * pixels * a.channels, a, a.channels, head * depth, depth, whole, begin, keys.data());
        to_planes(value + image * pixels * a.value_channels, a, a.value_channels, head * value_depth, value_depth,
                  whole, begin, values.data());
        for (const Size at : starts) {
            attend(queries.data(), keys.data(), table ? table + head * depth * offsets : nullptr, a, steps, depth, at,
                   weights.data());
            for (Size c = 0; c < value_depth; c++) {
                Vec<T> sum{};
                for (Size o = 0; o < offsets; o++) sum += weights[o] * load(&values[c * whole + at + steps[o]]);
                store(&out[c * inner + at], sum);
            }
        }
        from_planes(out.data(), a, a.value_channels, head * value_depth, value_depth, inner, 0,
                    y + image * pixels * a.value_channels);
    }
}

// Gradients of query, key and value, and of the table if `to_table` is not null.
template <class T>
void attention_backward(const T* gradient, const T* query, const T* key, const T* value, const T* table, Attention a,
                        T* to_query, T* to_key, T* to_value, T* to_table, Size threads) {
    const Size depth = a.channels / a.heads, value_depth = a.value_channels / a.heads, offsets = a.offsets();
    const Size inner = a.inner<T>(), whole = a.whole<T>(), begin = a.pad() * a.row() + a.pad();
    const Size pixels = a.height * a.width;
    std::vector<T> tables(to_table ? a.images * a.channels * offsets : 0);
    const std::vector<Size> steps = a.steps(), starts = a.starts<T>(), by_column = a.by_column();
#pragma omp parallel for schedule(static) num_threads(threads)
    for (Size job = 0; job < a.images * a.heads; job++) {
        const Size image = job / a.heads, head = job % a.heads;
        std::vector<T> queries(depth * inner), keys(depth * whole), values(value_depth * whole), given(value_depth * inner);
        std::vector<T> d_queries(depth * inner), d_keys(depth * whole), d_values(value_depth * whole);
        std::vector<Vec<T>> weights(offsets), logits(offsets), sums(to_table ? depth * offsets : 0);
        const T* own = table ? table + head * depth * offsets : nullptr;
        const Size at_map = image * pixels * a.channels, at_value = image * pixels * a.value_channels;
        to_planes(query + at_map, a, a.channels, head * depth, depth, inner, 0, queries.data());
        to_planes(key + at_map, a, a.channels, head * depth, depth, whole, begin, keys.data());
        to_planes(value + at_value, a, a.value_channels, head * value_depth, value_depth, whole, begin, values.data());
        to_planes(gradient + at_value, a, a.value_channels, head * value_depth, value_depth, inner, 0, given.data());
        for (const Size at : starts) {
            attend(queries.data(), keys.data(), own, a, steps, depth, at, weights.data());
            Vec<T> mean{};
            for (const Size o : by_column) {
                Vec<T> to_weight{};
                const Size step = at + steps[o];
                for (Size c = 0; c < value_depth; c++) {
                    const Vec<T> g = load(&given[c * inner + at]);
                    to_weight += g * load(&values[c * whole + step]);
                    store(&d_values[c * whole + step], Vec<T>(load(&d_values[c * whole + step]) + weights[o] * g));
                }
                logits[o] = to_weight, mean += weights[o] * to_weight;
            }
            for (Size o = 0; o < offsets; o++) logits[o] = weights[o] * (logits[o] - mean);
            for (Size c = 0; c < depth; c++) {
                const Vec<T> q = load(&queries[c * inner + at]);
                Vec<T> sum{};
                for (const Size o : by_column) {
                    const Size place = c * whole + at + steps[o];
                    Vec<T> one = load(&keys[place]);
                    if (own) one += own[c * offsets + o];
                    sum += logits[o] * one;
                    const Vec<T> passed = logits[o] * q;
                    store(&d_keys[place], Vec<T>(load(&d_keys[place]) + passed));
                    if (to_table) sums[c * offsets + o] += passed;
                }
                store(&d_queries[c * inner + at], sum);
            }
        }
        from_planes(d_queries.data(), a, a.channels, head * depth, depth, inner, 0, to_query + at_map);
        from_planes(d_keys.data(), a, a.channels, head * depth, depth, whole, begin, to_key + at_map);
        from_planes(d_values.data(), a, a.value_channels, head * value_depth, value_depth, whole, begin, to_value + at_value);
        if (to_table)
            for (Size i = 0; i < depth * offsets; i++)
                tables[(image * a.channels + head * depth) * offsets + i] = total<T>(sums[i]);
    }
    if (to_table) summed(tables.data(), a.images, a.channels * offsets, to_table);
}

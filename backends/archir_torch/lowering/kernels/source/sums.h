// Weighted sums of maps, or of norms of maps, in one pass over memory: y = sum over terms of share * norm(x).
#pragma once

#include "norm.h"

// A term share * norm(x). `share` points to a scalar; null means 1.
template <class T> struct Term {
    const T* x;
    Norm<T> norm;
    const T* share;
};

template <class T>
void sum_forward(const Term<T>* terms, Size count, Size pixels, Size channels, T* y, Size threads) {
    const Size wide = blocks_of(channels, LANES<T>) * LANES<T>;
    std::vector<T> scales(count * wide), shifts(wide);
    for (Size first = 0; first < channels; first += LANES<T>) {
        const Size lanes = std::min(LANES<T>, channels - first);
        Vec<T> shift{};
        for (Size k = 0; k < count; k++) {
            const Scaled<T> scaled(terms[k].norm, first, lanes);
            const T share = terms[k].share ? *terms[k].share : T(1);
            store(&scales[k * wide + first], Vec<T>(scaled.scale * share));
            shift += scaled.shift * share;
        }
        store(&shifts[first], shift);
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (Size chunk = 0; chunk < chunks_of(pixels); chunk++)
        for (Size first = 0; first < channels; first += LANES<T>) {
            const Size lanes = std::min(LANES<T>, channels - first), end = std::min(pixels, (chunk + 1) * CHUNK);
            const Vec<T> shift = load(&shifts[first]);
            constexpr Size TOGETHER = 8;
            for (Size pixel = chunk * CHUNK; pixel < end; pixel += TOGETHER) {
                Vec<T> sums[TOGETHER];
                const Size many = std::min(TOGETHER, end - pixel), at = pixel * channels + first;
                for (Size i = 0; i < many; i++) sums[i] = shift;
                for (Size k = 0; k < count; k++) {
                    const Vec<T> scale = load(&scales[k * wide + first]);
                    const T* from = terms[k].x + at;
                    if (many == TOGETHER) {
#pragma GCC unroll 8
                        for (Size i = 0; i < TOGETHER; i++) sums[i] += scale * load(from + i * channels, lanes);
                    } else {
                        for (Size i = 0; i < many; i++) sums[i] += scale * load(from + i * channels, lanes);
                    }
                }
                for (Size i = 0; i < many; i++) store(y + at + i * channels, sums[i], lanes);
            }
        }
}

// Gradients of a term, where they are not null: of the map, of the norm's weight and bias, and of `share`. The norm's
// gradient may be deferred to the operation that produced the map: then `passed_on` [3, channels] is written instead of
// `x`.
template <class T> struct To {
    T *x, *weight, *bias, *share, *passed_on;
};

template <class T>
void sum_backward(const T* gradient, const Term<T>* terms, const To<T>* to, Size count, Size pixels, Size channels,
                  Size threads) {
    const Size chunks = chunks_of(pixels), wide = blocks_of(channels, LANES<T>) * LANES<T>;
    const Size rows = count + 1;
    std::vector<T> parts(chunks * rows * wide), sums(rows * wide);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (Size chunk = 0; chunk < chunks; chunk++)
        for (Size first = 0; first < channels; first += LANES<T>) {
            const Size lanes = std::min(LANES<T>, channels - first), end = std::min(pixels, (chunk + 1) * CHUNK);
            const Size begin = chunk * CHUNK;
            T* part = &parts[chunk * rows * wide + first];
            Vec<T> sum{};
            for (Size pixel = begin; pixel < end; pixel++) sum += load(gradient + pixel * channels + first, lanes);
            store(part + count * wide, sum);
            for (Size k = 0; k < count; k++) {
                if (!terms[k].norm.inverse && !to[k].share) continue;
                const Scaled<T> scaled(terms[k].norm, first, lanes);
                Vec<T> product[4] = {};
                const T* x = terms[k].x;
                Size pixel = begin;
                for (; pixel + 4 <= end; pixel += 4)
                    for (Size i = 0; i < 4; i++) {
                        const Size at = (pixel + i) * channels + first;
                        product[i] += load(gradient + at, lanes) * (load(x + at, lanes) - scaled.mean);
                    }
                for (; pixel < end; pixel++) {
                    const Size at = pixel * channels + first;
                    product[0] += load(gradient + at, lanes) * (load(x + at, lanes) - scaled.mean);
                }
                store(part + k * wide, Vec<T>((product[0] + product[1] + product[2] + product[3]) * scaled.inverse));
            }
        }
    summed(parts.data(), chunks, rows * wide, sums.data());
    const T* total_gradient = &sums[count * wide];
    for (Size k = 0; k < count; k++) {
        const T share = terms[k].share ? *terms[k].share : T(1);
        const Norm<T>& norm = terms[k].norm;
        const T* product = &sums[k * wide];
        double whole = 0;
        for (Size c = 0; c < channels; c++) {
            if (to[k].weight) to[k].weight[c] = share * product[c];
            if (to[k].bias) to[k].bias[c] = share * total_gradient[c];
            whole += double(product[c]) * (norm.inverse && norm.weight ? norm.weight[c] : 1);
            if (norm.inverse && norm.bias) whole += double(total_gradient[c]) * norm.bias[c];
        }
        if (to[k].share) *to[k].share = T(whole);
        if (to[k].passed_on) pass_on(norm, share, total_gradient, product, pixels, channels, to[k].passed_on);
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (Size chunk = 0; chunk < chunks; chunk++)
        for (Size first = 0; first < channels; first += LANES<T>) {
            const Size lanes = std::min(LANES<T>, channels - first), end = std::min(pixels, (chunk + 1) * CHUNK);
            for (Size k = 0; k < count; k++) {
                if (!to[k].x) continue;
                const T share = terms[k].share ? *terms[k].share : T(1);
                const T* x = terms[k].x;
                Scaled<T> scaled(terms[k].norm, first, lanes);
                scaled.scale *= share;
                if (!terms[k].norm.inverse) {
                    for (Size pixel = chunk * CHUNK; pixel < end; pixel++) {
                        const Size at = pixel * channels + first;
                        store(to[k].x + at, Vec<T>(scaled.scale * load(gradient + at, lanes)), lanes);
                    }
                    continue;
                }
                const Passed<T> passed(scaled, load(total_gradient + first), load(&sums[k * wide + first]), pixels);
                for (Size pixel = chunk * CHUNK; pixel < end; pixel++) {
                    const Size at = pixel * channels + first;
                    store(to[k].x + at, passed.of(load(gradient + at, lanes), load(x + at, lanes)), lanes);
                }
            }
        }
}

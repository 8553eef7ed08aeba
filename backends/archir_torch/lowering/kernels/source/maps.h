// Vector types and memory access for channels-last feature maps: x[pixel * channels + channel]. A block is as many
// channels as a register holds; its results stay in registers. If the last block is incomplete, only the channels
// that exist are read and written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

using Size = std::int64_t;

// Compilers split vectors that are wider than registers, and then keep most of them in memory.
#if defined(__AVX512F__)
constexpr Size BYTES = 64;
#else
constexpr Size BYTES = 32;
#endif

template <class T> struct Block {
    typedef T Vector __attribute__((vector_size(BYTES)));
    typedef T Anywhere __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
};
template <class T> using Vec = typename Block<T>::Vector;
template <class T> constexpr Size LANES = BYTES / sizeof(T);

template <class T> inline Vec<T> all(T value) { return value - Vec<T>{}; }

template <class T> inline Vec<T> load(const T* from) {
    return *reinterpret_cast<const typename Block<T>::Anywhere*>(from);
}

template <class T> inline void store(T* to, Vec<T> value) {
    *reinterpret_cast<typename Block<T>::Anywhere*>(to) = value;
}

// Loads the first `lanes` numbers; the others are 0.
template <class T> inline Vec<T> load(const T* from, Size lanes) {
    if (lanes == LANES<T>) return load(from);
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4)
        return (Vec<T>)_mm512_maskz_loadu_ps((__mmask16)((1u << lanes) - 1), from);
    else
        return (Vec<T>)_mm512_maskz_loadu_pd((__mmask8)((1u << lanes) - 1), from);
#else
    Vec<T> value{};
    for (Size i = 0; i < lanes; i++) value[i] = from[i];
    return value;
#endif
}

template <class T> inline void store(T* to, Vec<T> value, Size lanes) {
    if (lanes == LANES<T>) return store(to, value);
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4)
        _mm512_mask_storeu_ps(to, (__mmask16)((1u << lanes) - 1), (__m512)value);
    else
        _mm512_mask_storeu_pd(to, (__mmask8)((1u << lanes) - 1), (__m512d)value);
#else
    for (Size i = 0; i < lanes; i++) to[i] = value[i];
#endif
}

template <class T> inline T total(Vec<T> value) {
    T sum = 0;
    for (Size i = 0; i < LANES<T>; i++) sum += value[i];
    return sum;
}

template <class T> inline Vec<T> larger(Vec<T> a, Vec<T> b) { return b > a ? b : a; }
template <class T> inline Vec<T> smaller(Vec<T> a, Vec<T> b) { return b < a ? b : a; }

inline Size blocks_of(Size channels, Size lanes) { return (channels + lanes - 1) / lanes; }

// Number of pixels that are summed up together. Chunks do not depend on the number of threads, so that sums do not
// either.
constexpr Size CHUNK = 512;
inline Size chunks_of(Size pixels) { return (pixels + CHUNK - 1) / CHUNK; }

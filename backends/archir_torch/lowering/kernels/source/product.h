// Products of small matrices whose rows are pixels. Maps are planes [block][pixel][lane], as depthwise convolutions
// write them.
#pragma once

#include "maps.h"

// A weight matrix [from][to], row by row, with rows padded to whole blocks.
template <class T> struct Matrix {
    Size from, to, blocks;
    std::vector<T> numbers;

    // `transposed`: the source is stored as [to][from].
    Matrix(const T* source, Size from, Size to, bool transposed)
        : from(from), to(to), blocks(blocks_of(to, LANES<T>)), numbers(from * blocks * LANES<T>) {
        for (Size i = 0; i < from; i++)
            for (Size j = 0; j < to; j++)
                numbers[i * blocks * LANES<T> + j] = transposed ? source[j * from + i] : source[i * to + j];
    }

    const T* row(Size i, Size block) const { return &numbers[(i * blocks + block) * LANES<T>]; }
};

// Computes PIXELS x BLOCKS of the result, which stay in registers.
template <class T, Size PIXELS, Size BLOCKS, class Put>
inline void tile(const T* planes, Size plane, const Matrix<T>& matrix, Size pixel, Size block, Put put) {
    Vec<T> sums[PIXELS][BLOCKS] = {};
    for (Size lane = 0; lane < matrix.from; lane += LANES<T>) {
        const T* from = planes + lane * plane + pixel * LANES<T>;
        const Size end = std::min(LANES<T>, matrix.from - lane);
        for (Size i = 0; i < end; i++) {
            Vec<T> weights[BLOCKS];
#pragma GCC unroll 2
            for (Size b = 0; b < BLOCKS; b++) weights[b] = load(matrix.row(lane + i, block + b));
#pragma GCC unroll 12
            for (Size p = 0; p < PIXELS; p++) {
                const Vec<T> one = all<T>(from[p * LANES<T> + i]);
#pragma GCC unroll 2
                for (Size b = 0; b < BLOCKS; b++) sums[p][b] += one * weights[b];
            }
        }
    }
    for (Size p = 0; p < PIXELS; p++)
        for (Size b = 0; b < BLOCKS; b++) put(pixel + p, block + b, sums[p][b]);
}

// Calls put(pixel, block, sum over i of planes[i][pixel] * matrix[i][block]); each plane has `plane` pixels.
template <class T, class Put>
inline void multiply(const T* planes, Size pixels, Size plane, const Matrix<T>& matrix, Put put) {
    Size block = 0;
    for (; block + 2 <= matrix.blocks; block += 2) {
        Size pixel = 0;
        for (; pixel + 8 <= pixels; pixel += 8) tile<T, 8, 2>(planes, plane, matrix, pixel, block, put);
        for (; pixel < pixels; pixel++) tile<T, 1, 2>(planes, plane, matrix, pixel, block, put);
    }
    if (block < matrix.blocks) {
        Size pixel = 0;
        for (; pixel + 12 <= pixels; pixel += 12) tile<T, 12, 1>(planes, plane, matrix, pixel, block, put);
        for (; pixel < pixels; pixel++) tile<T, 1, 1>(planes, plane, matrix, pixel, block, put);
    }
}

// sums[i][j] = sum over pixels of a[i][pixel] * b[j][pixel], for i < `rows`; rows of `sums` are padded to whole blocks.
template <class T>
inline void outer(const T* a, Size rows, const T* b, Size columns, Size pixels, T* sums) {
    constexpr Size TOGETHER = std::min<Size>(8, LANES<T>);
    const Size blocks = blocks_of(columns, LANES<T>);
    for (Size row = 0; row < rows; row += TOGETHER) {
        const T* left = a + row / LANES<T> * LANES<T> * pixels + row % LANES<T>;
        for (Size block = 0; block < blocks; block++) {
            const T* right = b + block * LANES<T> * pixels;
            Vec<T> found[TOGETHER] = {};
            for (Size pixel = 0; pixel < pixels; pixel++) {
                const Vec<T> by = load(right + pixel * LANES<T>);
#pragma GCC unroll 8
                for (Size i = 0; i < TOGETHER; i++) found[i] += by * all<T>(left[pixel * LANES<T> + i]);
            }
            for (Size i = 0; i < std::min(TOGETHER, rows - row); i++)
                store(sums + ((row + i) * blocks + block) * LANES<T>, found[i]);
        }
    }
}

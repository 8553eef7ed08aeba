// Average and max pooling. The gradient of max pooling searches for the maximum again, so that no positions are saved.
#pragma once

#include <limits>

#include "depthwise.h"

// Rows and columns of a map that a window covers, without padding.
struct Window {
    Size begin_row, end_row, begin, end;

    Window(const Geometry& g, Size row, Size column) {
        const Size down = row * g.stride - g.top, along = column * g.stride - g.left;
        begin_row = std::max<Size>(0, down), end_row = std::min(g.height, down + g.kernel_height);
        begin = std::max<Size>(0, along), end = std::min(g.width, along + g.kernel_width);
    }

    // Number of pixels that a mean divides by: those inside the map, or with `padded` all of the window's.
    double pixels(const Geometry& g, bool padded) const {
        if (!padded) return double((end_row - begin_row) * (end - begin));
        return double(g.kernel_height * g.kernel_width);
    }
};

// Calls `run` for each pixel of the result and each block of channels, in parallel over images and blocks.
template <class T, class Run> void over_windows(const Geometry& g, Size threads, Run run) {
    const Size blocks = blocks_of(g.channels, LANES<T>);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (Size job = 0; job < g.images * blocks; job++) {
        const Size image = job / blocks, first = job % blocks * LANES<T>;
        const Size lanes = std::min(LANES<T>, g.channels - first);
        for (Size row = 0; row < g.out_height; row++)
            for (Size column = 0; column < g.out_width; column++) {
                const Size at = ((image * g.out_height + row) * g.out_width + column) * g.channels + first;
                run(image * g.height * g.width * g.channels + first, at, lanes, Window(g, row, column));
            }
    }
}

template <class T> void pool_forward(const T* x, Geometry g, Size largest, Size padded, T* y, Size threads) {
    over_windows<T>(g, threads, [&](Size image, Size at, Size lanes, const Window& window) {
        const T infinity = std::numeric_limits<T>::infinity();
        Vec<T> found = largest ? all<T>(-infinity) : Vec<T>{};
        for (Size i = window.begin_row; i < window.end_row; i++)
            for (Size j = window.begin; j < window.end; j++) {
                const Vec<T> read = load(x + image + (i * g.width + j) * g.channels, lanes);
                found = largest ? ((read > found) | (read != read) ? read : found) : found + read;
            }
        if (!largest) found *= T(1 / window.pixels(g, padded));
        store(y + at, found, lanes);
    });
}

template <class T>
void pool_backward(const T* gradient, const T* x, Geometry g, Size largest, Size padded, T* to_x, Size threads) {
    std::fill_n(to_x, g.images * g.height * g.width * g.channels, T(0));
    over_windows<T>(g, threads, [&](Size image, Size at, Size lanes, const Window& window) {
        Vec<T> share = load(gradient + at, lanes), most = all<T>(-std::numeric_limits<T>::infinity()), position{};
        T number = 0;
        if (largest) {  // the first of equal maxima gets all of the gradient, or the last NaN, as in torch
            for (Size i = window.begin_row; i < window.end_row; i++)
                for (Size j = window.begin; j < window.end; j++, number++) {
                    const Vec<T> read = load(x + image + (i * g.width + j) * g.channels, lanes);
                    const auto larger = (read > most) | (read != read);
                    most = larger ? read : most;
                    position = larger ? all<T>(number) : position;
                }
        } else {
            share *= T(1 / window.pixels(g, padded));
        }
        number = 0;
        for (Size i = window.begin_row; i < window.end_row; i++)
            for (Size j = window.begin; j < window.end; j++, number++) {
                const Size to = image + (i * g.width + j) * g.channels;
                const Vec<T> chosen = position == all<T>(number) ? share : Vec<T>{};
                store(to_x + to, Vec<T>(load(to_x + to, lanes) + (largest ? chosen : share)), lanes);
            }
    });
}

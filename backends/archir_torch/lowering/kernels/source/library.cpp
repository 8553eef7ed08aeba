// Entry points for Python: each kernel in single (f32) and in double precision (f64).
#include "attention.h"
#include "depthwise.h"
#include "norm.h"
#include "pool.h"
#include "separable.h"
#include "sums.h"

#define FOR_EACH(MAKE) MAKE(float, f32) MAKE(double, f64)

#define MAKE(T, NAME)                                                                                                  \
    extern "C" void moments_##NAME(const T* x, Size pixels, Size channels, double eps, double momentum, T* mean,       \
                                   T* inverse, T* running_mean, T* running_var, Size threads) {                       \
        moments(x, pixels, channels, eps, momentum, mean, inverse, running_mean, running_var, threads);                \
    }                                                                                                                  \
    extern "C" void norm_forward_##NAME(const T* x, Size pixels, Size channels, const Norm<T>* norm, Size activation,  \
                                        T* y, Size threads) {                                                          \
        norm_forward(x, pixels, channels, *norm, activation, y, threads);                                              \
    }                                                                                                                  \
    extern "C" void norm_backward_##NAME(const T* gradient, const T* x, Size pixels, Size channels,                    \
                                         const Norm<T>* norm, Size activation, T* to_x, T* to_weight, T* to_bias,      \
                                         Size threads) {                                                               \
        norm_backward(gradient, x, pixels, channels, *norm, activation, to_x, to_weight, to_bias, threads);            \
    }                                                                                                                  \
    extern "C" void depthwise_forward_##NAME(const T* x, const Geometry* geometry, const Norm<T>* norm,                \
                                             Size activation, const T* filter, T* y, Size threads) {                   \
        depthwise_forward(x, *geometry, *norm, activation, filter, y, threads);                                        \
    }                                                                                                                  \
    extern "C" void depthwise_backward_##NAME(const T* gradient, const T* x, const Geometry* geometry,                 \
                                              const Norm<T>* norm, Size activation, const T* filter, T* to_x,          \
                                              T* to_filter, T* to_weight, T* to_bias, Size threads) {                  \
        depthwise_backward(gradient, x, *geometry, *norm, activation, filter, to_x, to_filter, to_weight, to_bias,     \
                           threads);                                                                                   \
    }                                                                                                                  \
    extern "C" void statistics_##NAME(const T* mean, const T* variance, Size pixels, Size channels, double eps,         \
                                      double momentum, T* inverse, T* running_mean, T* running_var, Size) {            \
        statistics(mean, variance, pixels, channels, eps, momentum, inverse, running_mean, running_var);               \
    }                                                                                                                  \
    extern "C" void separable_forward_##NAME(const T* x, const Geometry* geometry, const Norm<T>* norm,                \
                                             Size activation, const T* filter, const T* pointwise, Size outputs, T* y, \
                                             T* mean, T* variance, Size threads) {                                     \
        separable_forward(x, *geometry, *norm, activation, filter, pointwise, outputs, y, mean, variance, threads);    \
    }                                                                                                                  \
    extern "C" void separable_backward_##NAME(                                                                         \
        const Given<T>* given, const T* x, const Geometry* geometry, const Norm<T>* norm, Size activation,             \
        const T* filter, const T* pointwise, Size outputs, T* to_x, T* to_filter, T* to_pointwise, T* to_weight,       \
        T* to_bias, T* passed_on, Size threads) {                                                                      \
        separable_backward(*given, x, *geometry, *norm, activation, filter, pointwise, outputs, to_x, to_filter,       \
                           to_pointwise, to_weight, to_bias, passed_on, threads);                                      \
    }                                                                                                                  \
    extern "C" void sum_forward_##NAME(const Term<T>* terms, Size count, Size pixels, Size channels, T* y,             \
                                       Size threads) {                                                                 \
        sum_forward(terms, count, pixels, channels, y, threads);                                                       \
    }                                                                                                                  \
    extern "C" void sum_backward_##NAME(const T* gradient, const Term<T>* terms, const To<T>* to, Size count,          \
                                        Size pixels, Size channels, Size threads) {                                    \
        sum_backward(gradient, terms, to, count, pixels, channels, threads);                                           \
    }                                                                                                                  \
    extern "C" void attention_forward_##NAME(const T* query, const T* key, const T* value, const T* table,             \
                                             const Attention* sizes, T* y, Size threads) {                             \
        attention_forward(query, key, value, table, *sizes, y, threads);                                               \
    }                                                                                                                  \
    extern "C" void attention_backward_##NAME(const T* gradient, const T* query, const T* key, const T* value,         \
                                              const T* table, const Attention* sizes, T* to_query, T* to_key,          \
                                              T* to_value, T* to_table, Size threads) {                                \
        attention_backward(gradient, query, key, value, table, *sizes, to_query, to_key, to_value, to_table, threads); \
    }                                                                                                                  \
    extern "C" void pool_forward_##NAME(const T* x, const Geometry* geometry, Size largest, Size padded, T* y,         \
                                        Size threads) {                                                                \
        pool_forward(x, *geometry, largest, padded, y, threads);                                                       \
    }                                                                                                                  \
    extern "C" void pool_backward_##NAME(const T* gradient, const T* x, const Geometry* geometry, Size largest,        \
                                         Size padded, T* to_x, Size threads) {                                         \
        pool_backward(gradient, x, *geometry, largest, padded, to_x, threads);                                         \
    }

FOR_EACH(MAKE)

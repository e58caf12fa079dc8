// rivals.cpp - what a user would write in C++: the k largest in one pass, with their indices.
//
// Built when the benchmark runs, for this machine; no part of the package.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace
{

template <class T> struct Item {
    T value;
    int64_t index;
};

// Larger first; equal ones by index.
template <class T> bool before(const Item<T> &a, const Item<T> &b)
{
    return a.value > b.value || (a.value == b.value && a.index < b.index);
}

template <class T> void write(std::vector<Item<T>> &best, size_t k, int sorted, int64_t *out)
{
    if (sorted) std::sort(best.begin(), best.begin() + k, before<T>);
    for (size_t i = 0; i < k; i++) out[i] = best[i].index;
}

// A heap of the best k so far, the worst of them on top.
template <class T> void heap(const T *x, size_t n, size_t k, int sorted, int64_t *out)
{
    std::vector<Item<T>> best(k);
    for (size_t i = 0; i < k; i++) best[i] = {x[i], (int64_t)i};
    std::make_heap(best.begin(), best.end(), before<T>);
    for (size_t i = k; i < n; i++) {
        if (!(x[i] > best.front().value)) continue;
        std::pop_heap(best.begin(), best.end(), before<T>);
        best.back() = {x[i], (int64_t)i};
        std::push_heap(best.begin(), best.end(), before<T>);
    }
    write(best, k, sorted, out);
}

// A reservoir of 2k, cut to the best k when it is full.
template <class T> void reservoir(const T *x, size_t n, size_t k, int sorted, int64_t *out)
{
    std::vector<Item<T>> held;
    held.reserve(2 * k);
    size_t i = 0;
    for (; i < n && i < k; i++) held.push_back({x[i], (int64_t)i});
    T bound = std::min_element(held.begin(), held.end(), [](auto a, auto b) {
                  return a.value < b.value;
              })->value;
    for (; i < n; i++) {
        if (!(x[i] > bound)) continue;
        held.push_back({x[i], (int64_t)i});
        if (held.size() < 2 * k) continue;
        std::nth_element(held.begin(), held.begin() + (k - 1), held.end(), before<T>);
        held.resize(k);
        bound = held[k - 1].value;
    }
    if (held.size() > k)
        std::nth_element(held.begin(), held.begin() + (k - 1), held.end(), before<T>);
    write(held, k, sorted, out);
}

} // namespace

#define RIVALS(name, type)                                                                         \
    extern "C" void heap_##name(const type *x, size_t n, size_t k, int sorted, int64_t *out)       \
    {                                                                                              \
        heap<type>(x, n, k, sorted, out);                                                          \
    }                                                                                              \
    extern "C" void reservoir_##name(const type *x, size_t n, size_t k, int sorted, int64_t *out)  \
    {                                                                                              \
        reservoir<type>(x, n, k, sorted, out);                                                     \
    }
RIVALS(bool, uint8_t)
RIVALS(int8, int8_t)
RIVALS(int16, int16_t)
RIVALS(int32, int32_t)
RIVALS(int64, int64_t)
RIVALS(uint8, uint8_t)
RIVALS(uint16, uint16_t)
RIVALS(uint32, uint32_t)
RIVALS(uint64, uint64_t)
RIVALS(float32, float)
RIVALS(float64, double)

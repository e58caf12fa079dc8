/* items.c - from ranks to items.
 *
 * The head is in order, so a rank in it is an item. What lies past it is known
 * by count only; but equal counts may stand in for one another, so any uniform
 * choice among those of a group will do. Large groups: indices are drawn until
 * one belongs. Small ones: the item is the one with that rank, ties by index,
 * and one pass over the column finds them all. */
#include "dptk.h"
#include "variate.h"

#include <string.h>

enum { CHUNK = 512, BITS = 1 << 16 };

/* Groups of which fewer than one in so many items is a member are searched for. */
#define RARE 4096u

size_t dptk_items_scratch(size_t k) { return CHUNK + BITS / 64 + 3 * k; }

/* The group a rank is in. */
static size_t group_of(const dptk_groups *groups, int64_t rank)
{
    size_t low = 0, high = groups->n - 1;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rank < groups->end[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

typedef struct wanted {
    int64_t key;
    int64_t nth; /* which of the equal ones, 0 the first */
    size_t pick;
} wanted;

static int before(const wanted *a, const wanted *b)
{
    return a->key < b->key || (a->key == b->key && a->nth < b->nth);
}

static void sort(wanted *w, size_t n)
{
    for (size_t gap = n / 2; gap; gap /= 2)
        for (size_t i = gap; i < n; i++) {
            const wanted x = w[i];
            size_t j = i;
            for (; j >= gap && before(&x, &w[j - gap]); j -= gap) w[j] = w[j - gap];
            w[j] = x;
        }
}

/* The first of those wanted that has this key, or n. */
static size_t find(const wanted *w, size_t n, int64_t key)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (w[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && w[low].key == key ? low : n;
}

/* One pass. Each time a wanted key occurs, its group's counters go down; the
 * one that was at 0 is found. */
static int search(const dptk_column *col, wanted *w, size_t n, int64_t *keys, uint64_t *bits,
                   int64_t *item)
{
    size_t left = n;
    memset(bits, 0, BITS / 8);
    for (size_t i = 0; i < n; i++) {
        const uint16_t low = (uint16_t)w[i].key;
        bits[low / 64] |= UINT64_C(1) << low % 64;
    }
    for (size_t first = 0; first < col->n && left; first += CHUNK) {
        const size_t count = col->n - first < CHUNK ? col->n - first : CHUNK;
        dptk_keys(col, first, count, keys);
        for (size_t i = 0; i < count; i++) {
            const uint16_t low = (uint16_t)keys[i];
            if (!(bits[low / 64] >> low % 64 & 1)) continue;
            for (size_t q = find(w, n, keys[i]); q < n && w[q].key == keys[i]; q++)
                if (w[q].nth-- == 0) {
                    item[w[q].pick] = (int64_t)(first + i);
                    left--;
                }
        }
    }
    return left ? DPTK_CHANGED : DPTK_OK;
}

int dptk_items(dptk_rng *rng, const int64_t *rank, const dptk_groups *groups, const int64_t *head,
               size_t m, const dptk_column *col, size_t k, int64_t *scratch, int64_t *item)
{
    int64_t *keys = scratch;
    uint64_t *bits = (uint64_t *)(void *)(scratch + CHUNK);
    wanted *w = (wanted *)(void *)(scratch + CHUNK + BITS / 64);
    size_t searched = 0;
    for (size_t i = 0; i < k; i++) {
        size_t g, members;
        int64_t start, after;
        misses missed;
        item[i] = -1;
        if ((size_t)rank[i] < m) {
            item[i] = head[rank[i]];
            continue;
        }
        g = group_of(groups, rank[i]);
        start = g ? groups->end[g - 1] : 0;
        if ((uint64_t)(groups->end[g] - start) < col->n / RARE) {
            w[searched++] = (wanted){groups->key[g], rank[i] - start, i};
            continue;
        }
        /* The head has the group's first items. */
        after = (size_t)start < m ? head[m - 1] : -1;
        members = (size_t)groups->end[g] - ((size_t)start < m ? m : (size_t)start);
        missed = misses_of(col->n, members > i ? members - i : 1);
        while (item[i] < 0) {
            uint64_t at;
            int64_t key;
            size_t q = 0;
            int status = next_below(rng, col->n, &at);
            if (status != DPTK_OK) return status;
            dptk_keys(col, at, 1, &key);
            if (miss(&missed)
                && (missed.times > 2 || dptk_count(col, groups->key[g], after, 0) != members))
                return DPTK_CHANGED;
            if (key != groups->key[g] || (int64_t)at <= after) continue;
            while (q < i && item[q] != (int64_t)at) q++;
            if (q == i) item[i] = (int64_t)at;
        }
    }
    if (searched) {
        sort(w, searched);
        return search(col, w, searched, keys, bits, item);
    }
    return DPTK_OK;
}

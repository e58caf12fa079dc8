/* Buffers of words: whatever is read, rewound, begun or grown, the stream comes in order, no word
 * twice in two calls, and a word that was read is wiped from memory with the next call. */
#include "fuzz.h"

enum { MOST = 4096 };

static uint64_t counted(void *state) { return ++*(uint64_t *)state; }

typedef struct source {
    union {
        dptk_buffer buffer;
        dptk_drawn drawn;
        dptk_chacha chacha;
    } as;
    int secure;
    uint64_t drawn; /* so far */
    uint8_t key[32];
} source;

static void init(source *s, uint64_t *words, size_t capacity)
{
    s->drawn = 0;
    if (s->secure)
        dptk_chacha_init(&s->as.chacha, s->key, words, capacity);
    else
        dptk_drawn_init(&s->as.drawn, counted, &s->drawn, words, capacity);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    source s = {.secure = (int)(number(&in, 1) % 2)}, plain_one;
    const size_t least = s.secure ? DPTK_CHACHA_BATCH : 1;
    size_t capacity = least + number(&in, 1), begun = 0, read = 0;
    uint64_t *words = room(capacity * 8), *right = room(MOST * 8);
    dptk_simd_set((int)(number(&in, 1) % 3));
    take(&in, s.key, sizeof s.key);
    plain_one = s;
    init(&plain_one, right, MOST); /* read once, from the first word to the last */
    dptk_rng *rng = &plain_one.as.buffer.rng;
    for (int status = DPTK_OK; status == DPTK_OK; rng->next = rng->end)
        status = rng->refill(rng, 1);
    const size_t all = (size_t)(rng->end - right);
    memset(words, 0, capacity * 8);
    init(&s, words, capacity);
    rng = &s.as.buffer.rng;
    while (in.at < in.end) {
        const size_t what = number(&in, 1) % 8, count = number(&in, 1);
        if (what == 0) {
            const uint64_t *end = rng->next;
            for (const uint64_t *at = rng->first; at < end; at++)
                CHECK(*at == right[begun + (size_t)(at - rng->first)]);
            dptk_buffer_begin(&s.as.buffer);
            begun = read;
            /* Of the words that were read no trace is left, in order as they were. */
            for (size_t i = 0; i < capacity && begun; i++)
                if (words + i < rng->first || words + i >= rng->end)
                    CHECK(!s.secure || words[i] != right[begun - 1]);
        } else if (what == 1) {
            dptk_rewind(rng);
            read = begun;
        } else if (what == 2 && capacity < MOST) {
            uint64_t *larger = room((capacity + count) * 8);
            dptk_buffer_grow(&s.as.buffer, larger, capacity + count);
            for (size_t i = 0; i < capacity; i++) CHECK(words[i] == 0);
            free(words);
            words = larger;
            capacity += count;
            memset(words + (rng->end - words), 0, (capacity - (size_t)(rng->end - words)) * 8);
        } else {
            for (size_t i = 0; i < count && read < all; i++) {
                if (rng->next == rng->end) {
                    const int status = rng->refill(rng, count - i);
                    CHECK(status == DPTK_OK || status == DPTK_TAPE_END);
                    if (status == DPTK_OK)
                        CHECK(rng->end <= words + capacity && rng->next < rng->end);
                    else { /* full: there is less room than a refill needs */
                        CHECK(capacity - (size_t)(rng->end - words) < least);
                        break;
                    }
                }
                CHECK(*rng->next++ == right[read++]);
            }
        }
        CHECK(rng->first >= words && rng->first <= rng->next && rng->next <= rng->end);
        CHECK(rng->end <= words + capacity);
    }
    free(words), free(right);
    return 0;
}

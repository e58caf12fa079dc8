/* Paths under a staircase: their number, the same modulo a prime, and their parts at each stair,
 * against the plain recurrence; the same at every SIMD level. */
#include "naive.h"

static const uint64_t prime = (UINT64_C(1) << 61) - 1;

static uint64_t times(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b % prime);
}

static uint64_t over(uint64_t a) /* 1 / a */
{
    uint64_t result = 1;
    for (uint64_t power = prime - 2; power; power /= 2, a = times(a, a))
        if (power % 2) result = times(result, a);
    return result;
}

static uint64_t residue_of(const int64_t *bound, size_t k)
{
    uint64_t row[MOST_PATHS + 1] = {1}, inverse[MOST_PATHS + 1];
    int64_t height = 0;
    for (size_t m = 1; m <= k; m++) inverse[m] = over(m);
    for (size_t i = 0; i < k;) {
        const int64_t to = bound[i] + 1;
        uint64_t weight[MOST_PATHS + 1] = {1}, next[MOST_PATHS + 1] = {0};
        while (i < k && bound[i] + 1 == to) i++;
        for (size_t m = 1; m <= k; m++)
            weight[m] = times(times(weight[m - 1], (uint64_t)(to - height) + m - 1), inverse[m]);
        for (size_t j = i; j <= k; j++)
            for (size_t q = 0; q <= j; q++)
                next[j] = (next[j] + times(row[q], weight[j - q])) % prime;
        memcpy(row, next, sizeof row);
        height = to;
    }
    return row[k];
}

/* All parts of a walk from the top down. */
static void check_parts(dptk_staircase *c, const int64_t *bound, size_t k)
{
    const long double lost =
        c->precision ? c->precision == DPTK_PLAIN ? 0x1p-60L : 0x1p-100L : 0x1p-20L;
    size_t taken = k;
    for (size_t s = c->stairs - 1; s > 0 && taken > 0; s--) {
        const size_t placed = c->stair[s - 1].placed;
        const long double g = (long double)(c->stair[s].height - c->stair[s - 1].height);
        long double row[MOST_PATHS + 1], all = 0.0L, kept = 0.0L;
        double error, sum = 0.0;
        size_t first, n, largest = 0;
        const int status = dptk_paths_parts(c, s, taken, &first, &n, &error);
        CHECK(status == DPTK_OK || status == DPTK_UNDECIDED);
        if (status != DPTK_OK) return;
        CHECK(n > 0 && first >= placed && first + n <= taken + 1);
        naive_row(bound, k, placed, row);
        for (size_t i = 0; i <= taken; i++) row[i] *= ways(g, taken - i), all += row[i];
        for (size_t i = 0; i < n; i++) {
            sum += c->part.high[i];
            kept += row[first + i];
            if (c->part.high[i] > c->part.high[largest]) largest = i;
        }
        CHECK(all - kept <= (lost + 0x1p-60L) * all);
        for (size_t i = 0; i < n; i++) { /* of a quotient, both may be off */
            const long double share = row[first + i] / kept,
                              found = c->part.high[i] / (long double)sum;
            CHECK(fabsl(found - share) <= 2.1L * ((error + 0x1p-47L) * share + lost));
        }
        taken = first + largest;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    const size_t k = 1 + number(&in, 1) % MOST_PATHS;
    const int precision = (int)(number(&in, 1) % 3), rows = (int)(number(&in, 1) % 2);
    int64_t bound[MOST_PATHS], rise = 0;
    double first_log = 0.0, first_error = 0.0;
    uint64_t *modulo = room(dptk_paths_mod_scratch(k) * 8), residue;
    double *scratch = room(dptk_paths_scratch(k, precision, rows) * 8);
    for (size_t i = 0; i < k; i++) {
        const size_t bytes = number(&in, 1);
        if (bytes % 4) rise += (int64_t)number(&in, bytes % 32 < 28 ? 1 : 1 + bytes % 7);
        if (rise >= INT64_C(1) << 52) rise = (INT64_C(1) << 52) - 1;
        bound[i] = rise;
    }
    CHECK(dptk_paths_mod(bound, k, prime, NULL, modulo, &residue) == DPTK_OK);
    CHECK(residue == residue_of(bound, k));
    const long double right = naive_log_paths(bound, k);
    for (int level = 0; level <= dptk_simd_best(); level++) {
        dptk_staircase c;
        double log_count, error;
        dptk_simd_set(level);
        const int status = dptk_paths(bound, k, precision, rows, NULL, scratch, &c);
        CHECK(status == DPTK_OK || status == DPTK_UNDECIDED);
        if (status != DPTK_OK) {
            CHECK(level == 0 || isnan(first_log));
            first_log = NAN;
            continue;
        }
        CHECK(c.stairs >= 1 && c.stairs <= k && c.stair[c.stairs - 1].placed == k);
        dptk_paths_log(&c, &log_count, &error);
        CHECK(fabsl(log_count - right) <= error + 0x1p-50L);
        CHECK(level == 0 || (log_count == first_log && error == first_error));
        first_log = log_count, first_error = error;
        if (rows) check_parts(&c, bound, k);
    }
    free(modulo), free(scratch);
    return 0;
}

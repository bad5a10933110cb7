/* Planes held against the rows they are of: what a certified scan relies on, not how the codes were chosen. So planes of
 * another version, which may choose otherwise, pass as long as their error is true. */
#include "quant/quantizer.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <math.h>

/* For what the two ways of summing and rounding may differ by; a false error differs by more. */
static const double narrower = 1 - 0x1p-28, scaled_away = 0x1p-120;

struct row_view {
    const struct rows *rows;
    const void *vector;
    int64_t row;
    double divisor, square; /* what codes are of: the row over this; sum of its squares */
};

static struct row_view row_look(const struct rows *rows, int64_t row) {
    const char *vector = (const char *)rows->data + row * rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
    struct row_view view = {rows, vector, row, 1, 0};
    float largest = 0;
    for (int64_t i = 0; i < rows->dim; i++) {
        float value = dtype_load(rows->dtype, vector, i);
        largest = fmaxf(largest, fabsf(value));
        view.square += (double)value * (double)value;
    }
    if (rows->metric == VIC_COSINE) view.divisor = (double)rows->norms[row];
    if (view.divisor < 0) view.divisor = ldexp(-view.divisor, ilogbf(largest)); /* the norm of a scaled row */
    return view;
}

/* The code of dimension i, or of what lies past the last. */
static int32_t code_at(const struct plane *plane, enum plane_kind kind, int64_t row, int64_t i) {
    int32_t byte = plane->codes[row * plane->stride_bytes + plane_byte(kind, i)];
    return (kind == PLANE_8 ? byte : byte >> plane_shift(kind, i) & 15) - plane_offset(kind);
}

static bool error_holds(const struct row_view *view, const struct plane *plane, enum plane_kind kind) {
    double step = (double)plane->scale[view->row] * view->divisor, square = 0, error = (double)plane->error[view->row];
    for (int64_t i = 0; i < view->rows->dim; i++) {
        double rest = fma(-step, code_at(plane, kind, view->row, i), (double)dtype_load(view->rows->dtype, view->vector, i));
        square += rest * rest;
    }
    return square == 0 ? error >= 0 : sqrt(square) / view->divisor * narrower <= error + scaled_away;
}

static bool padding_holds(const struct row_view *view, const struct plane *plane, enum plane_kind kind) {
    int64_t end = plane->stride_bytes * 8 / plane_bits(kind);
    for (int64_t i = view->rows->dim; i < end; i++)
        if (code_at(plane, kind, view->row, i) != 0) return false;
    return true;
}

static enum vic_status plane_check(const struct row_view *view, enum plane_kind kind, const char *where) {
    const struct plane *plane = &view->rows->planes[kind];
    const struct quantizer *quantizer = quantizers[kind];
    if (!plane->codes) return VIC_OK;
    if (!padding_holds(view, plane, kind))
        return status_fail(VIC_FORMAT, "%s: section %s: expected no codes past dimension %" PRId64 " of row %" PRId64, where,
                           quantizer->codes_section, view->rows->dim, view->row);
    if (!error_holds(view, plane, kind))
        return status_fail(VIC_FORMAT, "%s: section %s: expected at least the error of row %" PRId64 "'s codes, found %.9g",
                           where, quantizer->error_section, view->row, (double)plane->error[view->row]);
    /* A row that codes say nothing about has no norm either. */
    const float *norms = view->rows->plane_norms;
    if (!norms || isinf(plane->error[view->row]) || (double)norms[view->row] >= sqrt(view->square) * narrower) return VIC_OK;
    return status_fail(VIC_FORMAT, "%s: section plane_norms: expected at least %.9g for row %" PRId64 ", found %.9g", where,
                       sqrt(view->square), view->row, (double)norms[view->row]);
}

enum vic_status planes_verify(const struct rows *rows, int64_t first, int64_t count, const char *where) {
    if (planes_present(rows) == 0) return VIC_OK;
    for (int64_t row = first; row < first + count; row++) {
        struct row_view view = row_look(rows, row);
        for (int kind = 0; kind < PLANE_COUNT; kind++) {
            enum vic_status status = plane_check(&view, (enum plane_kind)kind, where);
            if (status != VIC_OK) return status;
        }
    }
    return VIC_OK;
}

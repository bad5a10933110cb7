/* What work costs on this machine: measured when a program asks for it, kept in a small file, read when a device opens.
 *
 * The file only ever moves the point where a search changes from one way to another, so it is never trusted and never
 * missed: what cannot be read, was measured on another processor or is out of bounds leaves the built-in constants, and no
 * sentence. */
#ifndef INDEX_CALIBRATION_H
#define INDEX_CALIBRATION_H

#include "backend/backend.h"

/* Sets device->costs from the file, if there is one for this processor. */
void calibration_load(struct vic_device *device);
/* device->costs by measuring. */
enum vic_status calibration_measure(struct vic_device *device, double *seconds);
/* Writes device->costs to `path`, or where calibration_load looks (NULL; that folder is made). */
enum vic_status calibration_save(struct vic_device *device, const char *path);
/* Whether every number is one that a machine could have. */
bool costs_sane(const struct costs *costs);

#endif

/* Several files that belong together get their names: all of the old set, or all of the new one.
 *
 * What is there is set aside, the last file first; then the new ones get their names, the last file last. So the name that
 * leads to the others never stands beside files of another save. Where a rename fails everything goes back.
 *
 * The surprising rule: a crash between the first rename and the last leaves no file of the last name. That is worse than an
 * old set and better than a mixed one, which nothing could tell from a good one; both sets are then there under their hidden
 * names. */
#include "base/save.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static enum vic_status set_aside(struct save *save) {
    if (renameat(save->folder, save->name, save->folder, save->old) != 0)
        return errno == ENOENT ? VIC_OK : status_fail_errno(errno, "set aside", save->path);
    save->aside = true;
    if (fsync(save->folder) != 0 && errno != EINVAL) return status_fail_errno(errno, "make durable the folder of", save->path);
    return VIC_OK;
}

/* As it was before. What cannot be undone stays, and then so does the last name's absence. */
static bool put_back(struct save *save) {
    bool back = true;
    if (save->aside)
        back = renameat(save->folder, save->old, save->folder, save->name) == 0;
    else if (save->named)
        back = unlinkat(save->folder, save->name, 0) == 0;
    if (back) save->aside = save->named = false;
    return back;
}

static enum vic_status rename_all(struct save *const *saves, int count) {
    enum vic_status status = VIC_OK;
    for (int i = count - 1; i >= 0; i--) TRY(set_aside(saves[i]));
    for (int i = 0; i < count; i++) TRY(save_publish(saves[i]));
done:
    return status;
}

enum vic_status save_commit_all(struct save *const *saves, const uint64_t *bytes, int count) {
    struct status_note note;
    enum vic_status status = VIC_OK;
    for (int i = 0; i < count; i++) TRY(save_finish(saves[i], bytes[i]));
    status = rename_all(saves, count);
    if (!saves[count - 1]->named) {
        bool back = true;
        status_keep(&note, status);
        for (int i = 0; i < count && back; i++) back = put_back(saves[i]);
        return status_raise(&note);
    }
    /* Also those of a save that was killed at this point. */
    for (int i = 0; i < count; i++) (void)unlinkat(saves[i]->folder, saves[i]->old, 0);
done:
    return status;
}

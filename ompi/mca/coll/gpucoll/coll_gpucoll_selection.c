/*
 * The framework's own function does the work, on a copy of the framework whose selection is "all but those
 * found already".
 */
#include "coll_gpucoll_selection.h"
#include "coll_gpucoll.h"
#include "opal/util/argv.h"

/* Together they have a function for every slot of every kind of communicator. */
static const char *const foundation[] = {"basic", "libnbc", "self"};

static bool contains(char **names, const char *wanted)
{
    for (; *names != NULL; names++) {
        if (strcmp(*names, wanted) == 0) {
            return true;
        }
    }
    return false;
}

/* Is this a list of components to use that lacks one of the foundation? */
static bool is_incomplete(const char *selection)
{
    if (selection == NULL || selection[0] == '\0' || selection[0] == '^') {
        return false;
    }
    char **names = opal_argv_split(selection, ',');
    if (names == NULL) {
        return false;
    }
    bool incomplete = false;
    for (size_t i = 0; i < sizeof foundation / sizeof foundation[0]; i++) {
        incomplete |= !contains(names, foundation[i]);
    }
    opal_argv_free(names);
    return incomplete;
}

/* "^a,b" for the components a and b that are found already; NULL if out of memory. */
static char *all_but_found(const mca_base_framework_t *framework)
{
    char **names = NULL;
    mca_base_component_list_item_t *item;
    OPAL_LIST_FOREACH(item, &framework->framework_components, mca_base_component_list_item_t)
    {
        if (opal_argv_append_nosize(&names, item->cli_component->mca_component_name) != OPAL_SUCCESS) {
            opal_argv_free(names);
            return NULL;
        }
    }
    char *list = opal_argv_join(names, ',');
    char *selection = NULL;
    if (list != NULL && asprintf(&selection, "^%s", list) < 0) {
        selection = NULL;
    }
    free(list);
    opal_argv_free(names);
    return selection;
}

/* The caller up the stack is walking `to`: at its begin, what is added is behind that walk. */
static void move_to_begin(opal_list_t *from, opal_list_t *to)
{
    opal_list_item_t *item;
    while ((item = opal_list_remove_last(from)) != NULL) {
        opal_list_prepend(to, item);
    }
}

/* The selection is applied once more when components are opened. */
static void clear_selection(mca_base_framework_t *framework)
{
    int index = mca_base_var_find(framework->framework_project, framework->framework_name, NULL, NULL);
    if (index >= 0) {
        mca_base_var_set_value(index, "", 0, MCA_BASE_VAR_SOURCE_OVERRIDE, NULL);
    }
}

void gpucoll_selection_complete(void)
{
    mca_base_framework_t *coll = &ompi_coll_base_framework;
    char *selection = is_incomplete(coll->framework_selection) ? all_but_found(coll) : NULL;
    if (selection == NULL) {
        return;
    }
    mca_base_framework_t others = *coll;
    OBJ_CONSTRUCT(&others.framework_components, opal_list_t);
    OBJ_CONSTRUCT(&others.framework_failed_components, opal_list_t);
    others.framework_selection = selection;
    if (mca_base_framework_components_register(&others, MCA_BASE_REGISTER_DEFAULT) == OPAL_SUCCESS) {
        clear_selection(coll);
    }
    move_to_begin(&others.framework_components, &coll->framework_components);
    move_to_begin(&others.framework_failed_components, &coll->framework_failed_components);
    OBJ_DESTRUCT(&others.framework_components);
    OBJ_DESTRUCT(&others.framework_failed_components);
    free(selection);
}

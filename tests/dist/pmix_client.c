/* A client of PMIx, for calls that no MPI program is sure to make. */
#include <pmix.h>
#include <stdio.h>
#include <string.h>

/* Makes two groups of all ranks, one after the other, and says the number that each was given. */
static int groups(const pmix_proc_t* all) {
  for (int i = 0; i < 2; ++i) {
    const char name[] = {(char)('a' + i), '\0'};
    pmix_info_t wants, *given = NULL;
    size_t n = 0;
    bool yes = true;
    PMIX_INFO_LOAD(&wants, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
    if (PMIx_Group_construct(name, all, 1, &wants, 1, &given, &n) != PMIX_SUCCESS || n != 1) return 2;
    printf("group %s has number %zu\n", name, given[0].value.data.size);
    PMIX_INFO_FREE(given, n);
    if (PMIx_Group_destruct(name, NULL, 0) != PMIX_SUCCESS) return 3;
  }
  return 0;
}

/* Each rank asks all for a value, which is there once its rank has put it: no fence brings it. */
static int ask(const pmix_proc_t* self, const pmix_proc_t* all) {
  pmix_value_t value, *size = NULL, *found = NULL;
  pmix_proc_t peer = *self;
  char text[32];
  snprintf(text, sizeof text, "value of %u", self->rank);
  PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
  if (PMIx_Put(PMIX_GLOBAL, "mine", &value) != PMIX_SUCCESS || PMIx_Commit() != PMIX_SUCCESS) return 2;
  if (PMIx_Get(all, PMIX_JOB_SIZE, NULL, 0, &size) != PMIX_SUCCESS) return 3;
  for (peer.rank = 0; peer.rank < size->data.uint32; ++peer.rank) {
    if (PMIx_Get(&peer, "mine", NULL, 0, &found) != PMIX_SUCCESS) return 5;
    printf("rank %u has %s\n", peer.rank, found->data.string);
    PMIX_VALUE_RELEASE(found);
  }
  PMIX_VALUE_RELEASE(size);
  return PMIx_Fence(NULL, 0, NULL, 0) == PMIX_SUCCESS ? 0 : 6;
}

/* Says the text of the job that has this name. */
static int say(const pmix_proc_t* all, const char* name) {
  pmix_value_t* text = NULL;
  if (PMIx_Get(all, name, NULL, 0, &text) != PMIX_SUCCESS || text->type != PMIX_STRING) return 7;
  printf("%s is %s\n", name, text->data.string);
  PMIX_VALUE_RELEASE(text);
  return 0;
}

int main(int argc, char** argv) {
  pmix_proc_t self, all;
  if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS) return 1;
  PMIX_LOAD_PROCID(&all, self.nspace, PMIX_RANK_WILDCARD);
  const char* const what = argc > 1 ? argv[1] : "groups";
  const int code = strcmp(what, "ask") == 0      ? ask(&self, &all)
                   : strcmp(what, "groups") == 0 ? groups(&all)
                                                 : say(&all, what);
  return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? code : 4;
}

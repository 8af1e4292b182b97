/* A client of PMIx: makes two groups of all ranks, one after the other, and says the number that each was given. */
#include <pmix.h>
#include <stdio.h>

int main(void) {
  pmix_proc_t self, all;
  if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS) return 1;
  PMIX_LOAD_PROCID(&all, self.nspace, PMIX_RANK_WILDCARD);
  for (int i = 0; i < 2; ++i) {
    const char name[] = {(char)('a' + i), '\0'};
    pmix_info_t wants, *given = NULL;
    size_t n = 0;
    bool yes = true;
    PMIX_INFO_LOAD(&wants, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
    if (PMIx_Group_construct(name, &all, 1, &wants, 1, &given, &n) != PMIX_SUCCESS || n != 1) return 2;
    printf("group %s has number %zu\n", name, given[0].value.data.size);
    PMIX_INFO_FREE(given, n);
    if (PMIx_Group_destruct(name, NULL, 0) != PMIX_SUCCESS) return 3;
  }
  return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 4;
}

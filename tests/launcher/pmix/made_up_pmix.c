/* What stands for a newer libpmix. */
const char* PMIx_Get_version(void);
const char* PMIx_Get_version(void) {
  return "OpenPMIx 99.0.1 (made up)";
}

// Says who connects, and what became of a file.
static peal_outcome probe(const peal_peer *peer) {
  const size_t much = 70000;  // more than the stack has
  bool is_noise = peal_random_fill(peal_alloc(much), much) == PMIX_SUCCESS;
  bool is_number = peal_random() > 0;
  bool is_written = peal_file_write("spool", "a", "hel", 3) == PMIX_SUCCESS &&
                    peal_file_append("spool", "a", "lo", 2) == PMIX_SUCCESS;
  peal_strings directories = peal_file_directories(), names;
  peal_bytes data;
  bool is_read = peal_file_entries("spool", ".", &names) == PMIX_SUCCESS &&
                 peal_file_read("spool", "a", &data) == PMIX_SUCCESS && names.len == 1 && directories.len == 1;
  if (!is_noise || !is_written || !is_read) return peal_deny(PMIX_ERROR, "it does not work");
  char *text = peal_alloc(data.len + 1);
  memcpy(text, data.ptr, data.len);
  text[data.len] = 0;
  peal_file_remove("spool", "a");
  return peal_deny(PMIX_ERR_NO_PERMISSIONS,
                   peal_format("%u %s %u %s %s %s %s %d", peer->pid, peer->release, (unsigned)much,
                               is_number ? "true" : "false", directories.ptr[0], names.ptr[0], text,
                               peal_file_read("spool", "a", &data)));
}


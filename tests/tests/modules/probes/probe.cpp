// Says who connects, and what became of a file.
static peal::PolicyOutcome probe(const peal::PeerInfo &peer) {
  const auto noise = peal::random::bytes(70000);  // more than the stack has
  const bool is_number = peal::random::u64() > 0;
  const bool is_written = peal::files::write("spool", "a", "hel") && peal::files::append("spool", "a", "lo");
  const auto names = peal::files::list("spool");
  const auto data = peal::files::read("spool", "a");
  if (!noise || !is_written || !names || !data) return peal::PolicyOutcome::deny(PMIX_ERROR, "it does not work");
  const bool is_removed = peal::files::remove("spool", "a").has_value();
  const auto gone = peal::files::read("spool", "a");
  if (!is_removed || gone) return peal::PolicyOutcome::deny(PMIX_ERROR, "it was not removed");
  const std::string text(data->begin(), data->end());
  const std::string said = std::to_string(*peer.pid) + " " + peer.release + " " + std::to_string(noise->size()) +
                           (is_number ? " true " : " false ") + peal::files::directories().at(0) + " " + names->at(0) + " " +
                           text + " " + std::to_string(gone.error());
  return peal::PolicyOutcome::deny(PMIX_ERR_NO_PERMISSIONS, said);
}


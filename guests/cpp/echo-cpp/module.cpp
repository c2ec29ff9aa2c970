// Returns every info of the event, pushes the names of earlier handlers, and counts its calls.
#include <peal.hpp>

static std::uint32_t calls;

static peal::Outcome echo(const peal::Event &event) {
  peal::Outcome outcome = peal::Outcome::no_action();
  outcome.infos = event.infos();
  std::string before;
  if (event.previous_count() > 0) {
    for (const peal::ChainResult &result : event.previous_results())
      before += (before.empty() ? "" : " ") + result.name;
  }
  return std::move(outcome).with("echo.before", before).with("echo.calls", ++calls);
}

PEAL_EVENT_HANDLER(peal::event_handler<echo>)

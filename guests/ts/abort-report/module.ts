// Writes what led to an abnormal end into the record of the job, as one report. `peal-module.toml` says how, and declares the
// settings.
import * as peal from "../../../sdk/js/peal.js";
import * as clock from "../../../sdk/js/clock.js";
import * as logRequest from "../../../sdk/js/log-request.js";
import * as resourceUsage from "../../../sdk/js/resource-usage.js";
import { History, type Job } from "./history.ts";
import { lastLines, pathOf } from "./output.ts";

/** Codes of abnormal ends. */
const ENDS: ReadonlySet<number> = new Set([
  peal.status.PMIX_ERR_PROC_ABORTED_BY_SIG,
  peal.status.PMIX_ERR_EXIT_NONZERO_TERM,
  peal.status.PMIX_ERR_PROC_TERM_WO_SYNC,
]);

/** Keys of log channels. */
const CHANNELS: Readonly<Record<string, string>> = {
  job_record: peal.key.PMIX_LOG_JOB_RECORD,
  stderr: peal.key.PMIX_LOG_STDERR,
  syslog: peal.key.PMIX_LOG_SYSLOG,
};

const settings = { codes: "", events: 20, each: false, sample: 10, output: "", lines: 20, log: "job_record" };

const history = new History();

/** Reads the settings; each has the type of its default. */
function init(config: peal.Config): peal.Registration[] {
  const bounds: Readonly<Record<string, [number, number]>> = { events: [0, 200], sample: [0, 3600], lines: [1, 200] };
  for (const { key, value } of config.infos) {
    if (!(key in settings)) {
      throw new Error(`there is no setting "${key}"; there are ${Object.keys(settings).join(", ")}`);
    }
    const name = key as keyof typeof settings;
    const [least, most] = bounds[key] ?? [0, 0];
    if (typeof value !== typeof settings[name]) {
      throw new Error(`the setting "${key}" is ${String(value)}; it should be a ${typeof settings[name]}`);
    }
    if (typeof value === "number" && (!Number.isInteger(value) || value < least || value > most)) {
      throw new Error(`the setting "${key}" is ${value}; it should be an integer from ${least} to ${most}`);
    }
    Object.assign(settings, { [key]: value });
  }
  if (!(settings.log in CHANNELS)) {
    throw new Error(`the setting "log" is "${settings.log}"; there are ${Object.keys(CHANNELS).join(", ")}`);
  }
  const codes = settings.codes.split(",").filter((text) => text.trim() !== "").map(Number);
  if (!codes.every((code) => Number.isInteger(code) && code < 0)) {
    throw new Error(`the setting "codes" is "${settings.codes}"; it should list numbers of codes, as in "-3001, -25"`);
  }
  // Without codes it is called for all; the ends are among them.
  if (codes.length > 0) codes.push(...ENDS);
  const levels = { [peal.key.PMIX_EVENT_JOB_LEVEL]: true, [peal.key.PMIX_EVENT_ENVIRO_LEVEL]: true };
  return [{ name: "abort-report", codes, directives: levels }];
}

const procText = ({ nspace, rank }: peal.Proc): string => `${nspace}:${rank}`;

/** Returns the affected procs of an event or, if it names none, its source. */
function procsOf(event: peal.Event): peal.Proc[] {
  const affected = event.typed(peal.key.PMIX_EVENT_AFFECTED_PROC);
  if (affected?.type === "proc") return [affected.value];
  const all = event.typed(peal.key.PMIX_EVENT_AFFECTED_PROCS);
  if (all?.type === "procs" && all.value.length > 0) return all.value;
  const source = event.source;
  return source === undefined ? [] : [source];
}

/** Returns the line of an event in a report. */
function lineOf(event: peal.Event, procs: peal.Proc[], now: number): string {
  const source = event.source;
  const from = source === undefined ? "the resource manager" : procText(source);
  const about = procs.map(procText).join(", ");
  const text = event.get(peal.key.PMIX_EVENT_TEXT_MESSAGE);
  const said = typeof text === "string" ? `: ${text.slice(0, 200)}` : "";
  return `${new Date(now).toISOString()} event ${event.code} from ${from}, about ${about}${said}`;
}

/** Asks for the usage of a proc, unless that was done lately. */
function sample(job: Job, proc: peal.Proc, now: number): void {
  const pause = settings.sample * 1000;
  const before = job.samples.get(proc.rank);
  if (pause === 0 || (before !== undefined && now - before.time < pause && now >= before.time)) return;
  try {
    const usage = resourceUsage.query([proc]);
    if (usage.length > 0) job.sample(proc, { time: now, usage });
  } catch {
    // The proc has ended, or the host measures nothing: the report goes without.
  }
}

/** Submits the report about an abnormal end. */
function report(job: Job, event: peal.Event, proc: peal.Proc, now: number): peal.Outcome {
  const exit = event.get(peal.key.PMIX_EXIT_CODE);
  const status = typeof exit === "number" ? `, exit status ${exit}` : "";
  const parts = [`${job.events.length} events before`];
  const data = [
    peal.info("peal.abort.proc", proc),
    peal.info("peal.abort.code", peal.value.status(event.code)),
    peal.info("peal.abort.events", peal.value.values(3, [...job.events])),
  ];
  const used = job.samples.get(proc.rank);
  if (used !== undefined) {
    parts.push(`usage of ${Math.max(0, Math.round((now - used.time) / 1000))} s before`);
    data.push(peal.info("peal.abort.usage", peal.value.infos(used.usage)));
  }
  const output = settings.output === "" ? undefined : lastLines(pathOf(settings.output, proc), settings.lines);
  if (output !== undefined) {
    parts.push(`last ${output.split("\n").length} lines of output`);
    data.push(peal.info("peal.abort.output", output));
  }
  const line = `${procText(proc)} has ended abnormally (code ${event.code}${status}); ${parts.join(", ")}`;
  const channel = CHANNELS[settings.log] ?? peal.key.PMIX_LOG_JOB_RECORD;
  try {
    logRequest.submit([peal.info(channel, line), ...data], { [peal.key.PMIX_LOG_SOURCE]: proc });
  } catch (refused) {
    if (typeof refused === "number") return new peal.Outcome(refused);
    throw refused;
  }
  job.isReported = true;
  return peal.Outcome.partial().with("peal.abort.reported", proc);
}

function handle(event: peal.Event): peal.Outcome {
  const procs = procsOf(event);
  const first = procs[0];
  if (first === undefined) return peal.Outcome.noAction();
  const now = clock.now();
  if (ENDS.has(event.code)) {
    const job = history.job(first.nspace);
    const outcome = job.isReported && !settings.each ? peal.Outcome.noAction() : report(job, event, first, now);
    job.add(lineOf(event, procs, now), settings.events);
    return outcome;
  }
  const line = lineOf(event, procs, now);
  for (const nspace of new Set(procs.map((proc) => proc.nspace))) history.job(nspace).add(line, settings.events);
  const source = event.source;
  if (source !== undefined) sample(history.job(source.nspace), source, now);
  return peal.Outcome.noAction();
}

export const eventHandler = peal.eventHandler(handle);
export const lifecycle = peal.lifecycle(init);

// Last events of jobs, and the usage of procs when they were last seen, in bounded memory.
import type { Info, Proc } from "../../../sdk/js/peal.js";

/** Largest number of jobs. */
const MAX_JOBS = 256;
/** Largest number of procs of a job whose usage is kept. */
const MAX_PROCS = 64;

/** Usage of a proc at a time, in milliseconds. */
export interface Sample {
  time: number;
  usage: Info[];
}

/** What is remembered of one job. */
export class Job {
  readonly events: string[] = [];
  readonly samples = new Map<number, Sample>();
  isReported = false;

  /** Adds the line of an event; beyond the limit the oldest one goes. */
  add(line: string, limit: number): void {
    this.events.push(line);
    while (this.events.length > limit) this.events.shift();
  }

  /** Keeps the usage of a proc, in the place of an earlier one. */
  sample(proc: Proc, sample: Sample): void {
    if (this.samples.size < MAX_PROCS || this.samples.has(proc.rank)) this.samples.set(proc.rank, sample);
  }
}

/** Jobs by their namespaces. */
export class History {
  private readonly jobs = new Map<string, Job>();

  /** Returns a job, which becomes the latest one; beyond the limit the job that was not seen for the longest time goes. */
  job(nspace: string): Job {
    const job = this.jobs.get(nspace) ?? new Job();
    // A map has the order of insertion.
    this.jobs.delete(nspace);
    this.jobs.set(nspace, job);
    for (const oldest of this.jobs.keys()) {
      if (this.jobs.size <= MAX_JOBS) break;
      this.jobs.delete(oldest);
    }
    return job;
  }
}

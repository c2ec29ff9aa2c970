/**
 * What an author of Peal modules writes against, in JavaScript and TypeScript.
 *
 * **Integers are exact to 2^53 only.** QuickJS hands 64-bit integers over as numbers: larger ones arrive rounded, and leave
 * rounded when they are pushed again. Where a 64-bit id must survive, use another language, or have it travel as text or bytes.
 */
export { key, status } from "./names.js";

/** Whom an event is meant for. */
export type Range = "undef" | "rm" | "local" | "namespace" | "session" | "global" | "custom" | "proc-local";

/** A proc: its namespace and its rank there. */
export interface Proc {
  nspace: string;
  rank: number;
}

/** User and group of a process, as the kernel knows them. */
export interface Identity {
  uid: number;
  gid: number;
}

/** How binding an info is; what is left out is false. */
export interface InfoFlags {
  required?: boolean;
  arrayEnd?: boolean;
  requiredProcessed?: boolean;
  qualifier?: boolean;
  persistent?: boolean;
}

type Small = "byte" | "pid" | "int" | "int8" | "int16" | "int32" | "uint" | "uint8" | "uint16" | "uint32" | "status" | "rank";
/** Exact to 2^53 only. */
type Large = "size" | "int64" | "uint64" | "time";

/** A value with its PMIx type. */
export type Value =
  | { type: "undef"; value: null }
  | { type: "boolean"; value: boolean }
  | { type: "text" | "nspace"; value: string }
  | { type: Small | Large | "float32" | "float64"; value: number }
  | { type: "timeval"; value: { seconds: number; microseconds: number } }
  | { type: "proc"; value: Proc }
  | { type: "range"; value: Range }
  | { type: "bytes"; value: Uint8Array }
  | { type: "infos"; value: Info[] }
  | { type: "procs"; value: Proc[] }
  /** An array of values of one type, which it has even if it is empty: a PMIx type number. */
  | { type: "values"; element: number; value: Value[] }
  /** A value of a type that has no shape here: it can be passed on within the same call. */
  | { type: "other"; value: { dataType: number; at: number } };

/** A piece of information or a directive: a value under a key. */
export type Info = { key: string; flags?: InfoFlags } & Value;

/**
 * What may be given where a value is wanted: an integer counts as `int64`, another number as `float64`, an array as one of infos,
 * procs or of the type of its first element.
 */
export type Plain = Value | null | undefined | boolean | number | string | Uint8Array | Proc | Info[] | Plain[];

/** Makes values of a type, such as `value.uint32(7)`. */
export const value: {
  readonly undef: () => Value;
  readonly infos: (infos: Info[]) => Value;
  readonly procs: (procs: Proc[]) => Value;
  readonly values: (element: number, items: Plain[]) => Value;
  readonly [type: string]: (plain?: any, more?: any) => Value;
};

/** Makes an info. */
export function info(key: string, plain: Plain, flags?: InfoFlags): Info;

/** What one member of a chain returned; a status of -1000000 and below is one of Peal's own, of one that failed. */
export interface Step {
  name: string;
  status: number;
  infos: Info[];
}

/** What events and requests have in common. Each question is answered by the host, so keep an answer that is needed twice. */
interface View {
  /** Who caused it; undefined means the resource manager, or a tool without a name. */
  readonly source?: Proc;
  /** User and group of the source, as the kernel told the server. */
  readonly identity?: Identity;
  /** All infos, in their order. */
  readonly infos: Info[];
  /** How it is to be done; events have none. */
  readonly directives: Info[];
  /** What those before this one in the chain returned, oldest first. */
  readonly steps: Step[];
  /** How many ran before. */
  readonly stepCount: number;
  /** The value of this key among the infos or else the directives. A repeated key means the last. */
  get(key: string): Value["value"] | undefined;
  /** The same with its type. */
  typed(key: string): Value | undefined;
}

/** The event being handled. */
export interface Event extends View {
  readonly code: number;
  readonly range: Range;
  readonly registration: number;
  /** The tag that this module gave its registration; 0 where the admin's file made it. */
  readonly tag: number;
  readonly infoCount: number;
  readonly targets: Proc[];
}

/** An application that is to be started. */
export interface Application {
  /** The program as it was asked for; empty where none is named. */
  readonly command: string;
  /** Its arguments, without its name. */
  readonly arguments: string[];
  /** What it finds in its environment beside the server's own, each `NAME=value`. */
  readonly environment: string[];
  /** Where it starts, unless a directive says otherwise. */
  readonly directory?: string;
  /** How many procs; 0 where the number makes no sense. */
  readonly procs: number;
  /** Its own directives. */
  readonly directives: Info[];
}

/** The request being decided about. */
export interface Request extends View {
  readonly matter: "connection" | "event" | "registration" | "job-control" | "monitor" | "provision" | "log" | "group" | "spawn";
  /** Of a connection, or of what is to be done about a group. */
  readonly kind?: "client" | "tool" | "construct" | "destruct" | "invite" | "join";
  /** Of an event. */
  readonly code?: number;
  readonly range?: Range;
  /** Of a registration; none means all. */
  readonly codes: number[];
  /** Those that are to be provided, each by its name. */
  readonly nodes: string[];
  /** What is to be put on them. */
  readonly image?: string;
  /** Of a group, where the request names it. */
  readonly groupName?: string;
  /** What is to be spawned. */
  readonly applications: Application[];
  /** Of a connection: its process by the kernel's word, if that is known, and the release of its library by its own word. */
  readonly peer?: { pid?: number; release: string };
  /** The groups of the requester's process by the kernel's word: the one that it runs as comes first. */
  readonly groups: { gid: number; name?: string }[];
  /** As whom the server runs. */
  readonly server?: Identity;
  /** The procs that it is about, and whose they are. */
  readonly targets: { proc: Proc; owner?: Identity }[];
}

/** The request being logged; its infos are what is to be written. */
export interface LogRequest extends View {
  /** The key of the channel that is meant. */
  readonly channel: string;
  /** In seconds since the epoch. */
  readonly timestamp?: number;
}

/** What a handler did about an event, or a log channel about a request. */
export class Outcome {
  /** Any status: one of `status`, or a number that programs agreed upon. */
  constructor(status: number);
  status: number;
  infos: Info[];
  static noAction(): Outcome;
  static partial(): Outcome;
  static deferred(): Outcome;
  /** All is done: ends this owner's chain. No other status does. */
  static complete(): Outcome;
  static success(): Outcome;
  /** The same with one more info for those that come after. */
  with(key: string, plain: Plain): this;
}

/** What a policy says of a request. */
export class PolicyOutcome extends Outcome {
  private constructor();
  /** Nothing: those after it decide, and if none does, the site's default. */
  static pass(): PolicyOutcome;
  static grant(): PolicyOutcome;
  static deny(status?: number, reason?: string): PolicyOutcome;
  /** The same with a reason in words, shown to the requester. */
  because(words: string): this;
  /** The same with these in the place of the request's directives or, of an event or a connection, of its infos. */
  amend(infos: Info[]): this;
  /** The same with this range in the place of the event's; without effect for one that is not within it. */
  narrow(range: Range): this;
  /** The same with these in the place of what is to be logged; without effect where something else is decided about. */
  rewrite(data: Info[]): this;
}

export const REASON: "peal.reason";

/** What a module wishes to handle. Without codes it is a default registration, called for every event. */
export interface Registration {
  tag?: number;
  name?: string;
  codes?: number[];
  directives?: Info[] | Record<string, Plain>;
}

/** A component exports one constant for each role, under this name: `export const eventHandler = peal.eventHandler(...)`. */
export function eventHandler(handle: (event: Event) => Outcome | void): object;
export function logChannel(log: (request: LogRequest) => Outcome | void): object;
export function connectionPolicy(decide: (request: Request) => PolicyOutcome): object;
export function eventPolicy(decide: (request: Request) => PolicyOutcome): object;
export function jobControlPolicy(decide: (request: Request) => PolicyOutcome): object;
export function monitorPolicy(decide: (request: Request) => PolicyOutcome): object;
/** What is added to a grant the requester is told. */
export function provisionPolicy(decide: (request: Request) => PolicyOutcome): object;
export function logPolicy(decide: (request: Request) => PolicyOutcome): object;
export function groupPolicy(decide: (request: Request) => PolicyOutcome): object;
export function spawnPolicy(decide: (request: Request) => PolicyOutcome): object;

/** The settings of this module in the admin's file. */
export interface Config {
  readonly infos: Info[];
  get(name: string): Value["value"] | undefined;
}

/**
 * `init` is called before anything else; an Error that it throws is why the module will not start. Whatever other functions throw ends
 * the call; the host tells its text, file and line wherever it tells of the failure.
 */
export function lifecycle(init: (config: Config) => Registration[] | void, stop?: () => void): object;

/**
 * SDK for Peal modules in JavaScript and TypeScript.
 *
 * **Integers are exact to 2^53 only.** QuickJS passes 64-bit integers as numbers: larger ones arrive rounded, and are
 * rounded when they are pushed again. If a 64-bit id must survive, use another language, or pass it as text or bytes.
 */
export { key, status } from "./names.js";

/** Range of an event. */
export type Range = "undef" | "rm" | "local" | "namespace" | "session" | "global" | "custom" | "proc-local";

/** Proc: namespace and rank. */
export interface Proc {
  nspace: string;
  rank: number;
}

/** User and group of a process, as reported by the kernel. */
export interface UserIdentity {
  uid: number;
  gid: number;
}

/** Flags of an info; a missing one is false. */
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

/** Value with its PMIx type. */
export type Value =
  | { type: "undef"; value: null }
  | { type: "boolean"; value: boolean }
  | { type: "text"; value: string }
  | { type: "nspace"; value: string }
  | { [Type in Small | Large | "float32" | "float64"]: { type: Type; value: number } }[Small | Large | "float32" | "float64"]
  | { type: "timeval"; value: { seconds: number; microseconds: number } }
  | { type: "proc"; value: Proc }
  | { type: "range"; value: Range }
  | { type: "bytes"; value: Uint8Array }
  | { type: "infos"; value: Info[] }
  | { type: "procs"; value: Proc[] }
  /** Array of values of one type, which is given even if the array is empty: a PMIx type number. */
  | { type: "values"; element: number; value: Value[] }
  /** Value of a type that the contract does not define. It can be passed on within the same call. */
  | { type: "other"; value: { dataType: number; handle: number } };

/** Info or directive: a value under a key. */
export type Info = { key: string; flags?: InfoFlags } & Value;

/**
 * Forms of values that functions accept: an integer counts as `int64`, another number as `float64`, an array as one of infos, procs
 * or of the type of its first element.
 */
export type Plain = Value | null | undefined | boolean | number | string | Uint8Array | Proc | Info[] | Plain[];

/** Creates values of a type, such as `value.uint32(7)`. */
export const value: {
  /** One constructor for each type of a value. */
  readonly [Type in Exclude<Value["type"], "undef" | "values">]: (plain: Extract<Value, { type: Type }>["value"]) => Value;
} & {
  readonly undef: () => Value;
  readonly values: (element: number, items: Plain[]) => Value;
};

/** Creates an info. */
export function info(key: string, plain: Plain, flags?: InfoFlags): Info;

/** Result of one module of a chain. A status of -1000000 or below is one of Peal's own, of a module that failed. */
export interface ChainResult {
  name: string;
  status: number;
  infos: Info[];
}

/** Common part of events and requests. Every property calls the host, so keep a value that is needed twice. */
interface View {
  /** Source of the event or the requester; undefined: the resource manager, or a tool without a name. */
  readonly source?: Proc;
  /** User and group of the source, as reported by the kernel. */
  readonly identity?: UserIdentity;
  /** All infos, in their order. */
  readonly infos: Info[];
  /** Directives: how a request is carried out. Events have none. */
  readonly directives: Info[];
  /** Results of the modules that ran earlier in the chain, oldest first. */
  readonly previousResults: ChainResult[];
  /** Number of modules that ran earlier. */
  readonly previousCount: number;
  /** Returns the value of a key among the infos or else the directives. Of a repeated key the last value counts. */
  get(key: string): Value["value"] | undefined;
  /** Returns the value with its type. */
  typed(key: string): Value | undefined;
}

/** Event of the current call. */
export interface Event extends View {
  readonly code: number;
  readonly range: Range;
  readonly registration: number;
  /** Tag that this module gave to its registration; 0 if the configuration made it. */
  readonly tag: number;
  readonly infoCount: number;
  readonly targets: Proc[];
}

/** Application of the job to be spawned. */
export interface Application {
  /** Program as requested; empty if none is named. */
  readonly command: string;
  /** Arguments without the program's name. */
  readonly arguments: string[];
  /** Environment in addition to that of the server, each `NAME=value`. */
  readonly environment: string[];
  /** Working directory, unless a directive names another. */
  readonly directory?: string;
  /** Number of procs; 0 for an invalid number. */
  readonly procs: number;
  /** Directives of the application. */
  readonly directives: Info[];
}

/** Request to decide about. */
export interface Request extends View {
  readonly subject: "connection" | "event" | "registration" | "job-control" | "monitor" | "provision" | "log" | "group" | "spawn";
  /** Kind of a peer, or of an operation on a group. */
  readonly kind?: "client" | "tool" | "construct" | "destruct" | "invite" | "join";
  /** Code of an event. */
  readonly code?: number;
  readonly range?: Range;
  /** Codes of a registration; none: all codes. */
  readonly codes: number[];
  /** Names of the nodes to be provided. */
  readonly nodes: string[];
  /** Image for the nodes. */
  readonly image?: string;
  /** Name of the group, if the request names one. */
  readonly groupName?: string;
  /** Applications of the job to be spawned. */
  readonly applications: Application[];
  /** Peer of a connection: its process id by the kernel, if known, and the release of its PMIx library as stated by the peer. */
  readonly peer?: { pid?: number; release: string };
  /** Unix groups of the requester's process, as reported by the kernel: its effective group first. */
  readonly unixGroups: { gid: number; name?: string }[];
  /** User and group of the server. */
  readonly serverIdentity?: UserIdentity;
  /** Target procs, with their owners. */
  readonly targets: { proc: Proc; owner?: UserIdentity }[];
}

/** Log request of the current call; its infos are the data to be written. */
export interface LogRequest extends View {
  /** Key of the channel. */
  readonly channel: string;
  /** Time of the request, in seconds since the epoch. */
  readonly timestamp?: number;
}

/** Outcome of a handler's or a log channel's call. */
export class Outcome {
  /** Creates an outcome with any status: one of `status`, or a number that programs agreed upon. */
  constructor(status: number);
  status: number;
  infos: Info[];
  static noAction(): Outcome;
  static partial(): Outcome;
  static deferred(): Outcome;
  /** Creates an outcome: all actions were taken. This status alone ends the chain of its owner. */
  static complete(): Outcome;
  static success(): Outcome;
  /** Adds an info for later modules of the chain. */
  with(key: string, plain: Plain): this;
}

/** Outcome of one policy about a request. */
export class PolicyOutcome extends Outcome {
  private constructor();
  /** Creates an outcome without a decision: later policies decide or, if none does, the site's default. */
  static pass(): PolicyOutcome;
  static grant(): PolicyOutcome;
  static deny(status?: number, reason?: string): PolicyOutcome;
  /** Adds a reason in plain text, which the requester receives. */
  withReason(words: string): this;
  /** Replaces the directives of the request or, for an event or a connection, its infos. */
  amend(infos: Info[]): this;
  /** Replaces the range of the event; without effect if the new range is not within the old one. */
  narrowRange(range: Range): this;
  /** Replaces the data of a log request; without effect for other subjects. */
  rewriteData(data: Info[]): this;
}

export const REASON: "peal.reason";

/** Registration that a module requests. Without codes it is a default registration, called for every event. */
export interface Registration {
  tag?: number;
  name?: string;
  codes?: number[];
  directives?: Info[] | Record<string, Plain>;
}

/** Exports of a component: one constant for each role, under this name: `export const eventHandler = peal.eventHandler(...)`. */
export function eventHandler(handle: (event: Event) => Outcome | void): object;
export function logChannel(log: (request: LogRequest) => Outcome | void): object;
export function connectionPolicy(decide: (request: Request) => PolicyOutcome): object;
export function eventPolicy(decide: (request: Request) => PolicyOutcome): object;
export function jobControlPolicy(decide: (request: Request) => PolicyOutcome): object;
export function monitorPolicy(decide: (request: Request) => PolicyOutcome): object;
/** Provides nodes; the requester receives the infos of a grant. */
export function provisionPolicy(decide: (request: Request) => PolicyOutcome): object;
export function logPolicy(decide: (request: Request) => PolicyOutcome): object;
export function groupPolicy(decide: (request: Request) => PolicyOutcome): object;
export function spawnPolicy(decide: (request: Request) => PolicyOutcome): object;

/** Settings of this module in the admin's configuration. */
export interface Config {
  readonly infos: Info[];
  get(name: string): Value["value"] | undefined;
}

/**
 * Exports the role `lifecycle`. `init` is called before any other function; an Error that it throws keeps the module from starting.
 * An exception of another function ends the call; its text, file and line are part of the reported failure.
 */
export function lifecycle(init: (config: Config) => Registration[] | void, stop?: () => void): object;

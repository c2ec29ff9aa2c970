// SDK for Peal modules in JavaScript; peal.d.ts has the types and more documentation.
//
//     import * as peal from "./sdk/js/peal.js";
//
//     export const eventHandler = peal.eventHandler((event) =>
//       peal.Outcome.noAction().with("first.greeting", `well done, rank ${event.source?.rank}`));
//
// QuickJS keeps 64-bit integers as numbers, which are exact to 2^53; larger values are rounded.
import * as call from "peal:pmix/call@0.1.0";
import * as amendment from "peal:pmix/amendment@0.1.0";
import { described, refusal } from "./exceptions.js";
import { key, status } from "./names.js";
import { find, info, liftResults, liftInfos, liftValue, lowerFlatInfos, passEach } from "./values.js";

export { key, status };
export { info, value } from "./values.js";

/** Key of a reason in plain text, which the requester receives. */
export const REASON = "peal.reason";

/** Common part of events and requests: a view of the current call, and of what it was called with. */
class View {
  constructor(head) {
    // Handlers read few of its fields, so they are not copied.
    this.head = head;
  }

  get previousCount() {
    return this.head.previous;
  }

  /** Source of the event or the requester; undefined: the resource manager, or a tool without a name. */
  get source() {
    return call.source() ?? undefined;
  }

  get identity() {
    return call.credentials() ?? undefined;
  }

  get infos() {
    return liftInfos(call.infos());
  }

  get directives() {
    return liftInfos(call.directives());
  }

  get previousResults() {
    return liftResults(call.previousResults());
  }

  /** Returns the value of a key, with its type. */
  typed(key) {
    return liftValue(call.get(key));
  }

  /** Returns the value of a key as a JavaScript value. */
  get(key) {
    return this.typed(key)?.value ?? undefined;
  }
}

/** Event of the current call. */
export class Event extends View {
  get code() {
    return this.head.code;
  }

  get range() {
    return this.head.range;
  }

  get registration() {
    return this.head.registration;
  }

  get tag() {
    return this.head.tag;
  }

  get infoCount() {
    return this.head.infos;
  }

  get targets() {
    return call.targets();
  }
}

/** Request to decide about. */
export class Request extends View {
  constructor(subject, head) {
    super(head);
    this.subject = subject;
  }

  get kind() {
    return this.head.kind;
  }

  get code() {
    return this.head.code;
  }

  get range() {
    return this.head.range;
  }

  get codes() {
    return Array.from(this.head.codes ?? []);
  }

  get nodes() {
    return this.head.nodes ?? [];
  }

  get image() {
    return this.head.image ?? undefined;
  }

  get groupName() {
    return this.head.name ?? undefined;
  }

  get applications() {
    const heads = this.head.applications ?? [];
    const infos = heads.some((head) => head.directives > 0) ? this.infos : [];
    let at = 0;
    return heads.map(({ directory, directives, ...rest }) => ({
      ...rest,
      directory: directory ?? undefined,
      directives: infos.slice(at, (at += directives)),
    }));
  }

  get peer() {
    const peer = call.peer();
    return peer ? { pid: peer.pid ?? undefined, release: peer.release } : undefined;
  }

  get unixGroups() {
    return call.unixGroups().map(({ gid, name }) => ({ gid, name: name ?? undefined }));
  }

  get serverIdentity() {
    return call.serverIdentity() ?? undefined;
  }

  get targets() {
    const owners = call.targetOwners();
    return call.targets().map((proc, at) => ({ proc, owner: owners[at] ?? undefined }));
  }
}

/** Log request of the current call. */
export class LogRequest extends View {
  get channel() {
    return this.head.channel;
  }

  get timestamp() {
    return this.head.timestamp === 0 ? undefined : this.head.timestamp;
  }
}

/** Outcome of a handler's or a log channel's call. */
export class Outcome {
  constructor(status) {
    this.status = status;
    this.infos = [];
  }

  static noAction() {
    return new Outcome(status.PMIX_EVENT_NO_ACTION_TAKEN);
  }

  static partial() {
    return new Outcome(status.PMIX_EVENT_PARTIAL_ACTION_TAKEN);
  }

  static deferred() {
    return new Outcome(status.PMIX_EVENT_ACTION_DEFERRED);
  }

  static complete() {
    return new Outcome(status.PMIX_EVENT_ACTION_COMPLETE);
  }

  static success() {
    return new Outcome(status.PMIX_SUCCESS);
  }

  with(key, value) {
    this.infos.push(info(key, value));
    return this;
  }

  deliver() {
    passEach(this.infos, call.push);
    return this.status;
  }
}

/** Outcome of a policy for a request. */
export class PolicyOutcome extends Outcome {
  constructor(says, status) {
    super(status);
    this.kind = says;
  }

  static pass() {
    return new PolicyOutcome("pass");
  }

  static grant() {
    return new PolicyOutcome("grant");
  }

  static deny(code = status.PMIX_ERR_NO_PERMISSIONS, reason = undefined) {
    const outcome = new PolicyOutcome("deny", code);
    return reason === undefined ? outcome : outcome.withReason(reason);
  }

  withReason(words) {
    return this.with(REASON, words);
  }

  amend(infos) {
    this.amended = infos;
    return this;
  }

  narrowRange(range) {
    this.range = range;
    return this;
  }

  rewriteData(data) {
    this.rewritten = data;
    return this;
  }

  deliver() {
    super.deliver();
    if (this.amended !== undefined) amendment.amend(lowerFlatInfos(this.amended));
    if (this.range !== undefined) {
      try {
        amendment.narrowRange(this.range);
      } catch {
        // A range that is not narrower changes nothing.
      }
    }
    if (this.rewritten !== undefined) {
      try {
        amendment.rewriteData(lowerFlatInfos(this.rewritten));
      } catch {
        // If nothing is to be logged this changes nothing.
      }
    }
    return this.kind === "deny" ? { tag: "deny", val: this.status } : { tag: this.kind };
  }
}

/** The interface `event-handler`, of a function from Event to Outcome. */
export const eventHandler = (handle) => ({
  handle: described((head) => (handle(new Event(head)) ?? Outcome.noAction()).deliver()),
});

/** The interface `log-channel`, of a function from LogRequest to Outcome. */
export const logChannel = (log) => ({
  log: described((head) => (log(new LogRequest(head)) ?? Outcome.success()).deliver()),
});

const decides = (subject, decide) => described((head) => decide(new Request(subject, head)).deliver());

/** The interface `connection-policy`, of a function from Request to PolicyOutcome. */
export const connectionPolicy = (decide) => ({ decide: decides("connection", decide) });

/** The interface `event-policy`, of a function from Request to PolicyOutcome. */
export const eventPolicy = (decide) => ({
  decide: decides("event", decide),
  decideRegistration: decides("registration", decide),
});

/** The interface `job-control-policy`, of a function from Request to PolicyOutcome. */
export const jobControlPolicy = (decide) => ({ decide: decides("job-control", decide) });

/** The interface `monitor-policy`, of a function from Request to PolicyOutcome. */
export const monitorPolicy = (decide) => ({ decide: decides("monitor", decide) });

/** The interface `provision-policy`, of a function from Request to PolicyOutcome. */
export const provisionPolicy = (decide) => ({ decide: decides("provision", decide) });

/** The interface `log-policy`, of a function from Request to PolicyOutcome. */
export const logPolicy = (decide) => ({ decide: decides("log", decide) });

/** The interface `group-policy`, of a function from Request to PolicyOutcome. */
export const groupPolicy = (decide) => ({ decide: decides("group", decide) });

/** The interface `spawn-policy`, of a function from Request to PolicyOutcome. */
export const spawnPolicy = (decide) => ({ decide: decides("spawn", decide) });

/** Converts a requested registration to the form of the contract. */
export const lowerRegistration = ({ tag = 0, name = undefined, codes = [], directives = [] }) => ({
  tag,
  name,
  codes,
  directives: lowerFlatInfos(directives),
});

/** The interface `lifecycle`, of functions `init` and `stop`. An Error thrown by `init` keeps the module from starting. */
export const lifecycle = (init, stop = () => {}) => ({
  init(content) {
    const infos = liftInfos(content);
    let requested;
    try {
      requested = init({ infos, get: (key) => find(infos, key) }) ?? [];
    } catch (error) {
      throw refusal(error);
    }
    return described(() => requested.map(lowerRegistration))();
  },
  stop: described(stop),
});

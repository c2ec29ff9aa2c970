// What an author of Peal modules writes against, in JavaScript; peal.d.ts has the types and says more.
//
//     import * as peal from "./sdk/js/peal.js";
//
//     export const eventHandler = peal.eventHandler((event) =>
//       peal.Outcome.noAction().with("first.greeting", `well done, rank ${event.source?.rank}`));
//
// QuickJS keeps 64-bit integers as numbers, which are exact to 2^53. Beyond, a value that passes through here is rounded.
import * as call from "peal:pmix/call@0.1.0";
import * as amendment from "peal:pmix/amendment@0.1.0";
import { described, refusal } from "./exceptions.js";
import { key, status } from "./names.js";
import { find, info, liftChain, liftContent, liftFound, lowerContent, lowerInfo } from "./values.js";

export { key, status };
export { info, value } from "./values.js";

/** The key under which a reason in words is shown to the requester. */
export const REASON = "peal.reason";

/** What events and requests have in common: a view of the call being made. */
class View {
  /** Who caused it; undefined means the resource manager, or a tool without a name. */
  get source() {
    return call.source() ?? undefined;
  }

  get identity() {
    return call.credentials() ?? undefined;
  }

  get infos() {
    return liftContent(call.infos());
  }

  get directives() {
    return liftContent(call.directives());
  }

  get steps() {
    return liftChain(call.steps());
  }

  /** The value under a key, with its type. */
  typed(key) {
    return liftFound(call.get(key));
  }

  /** The value under a key as JavaScript has it. */
  get(key) {
    return this.typed(key)?.value ?? undefined;
  }
}

/** The event being handled. */
export class Event extends View {
  constructor(head) {
    super();
    this.code = head.code;
    this.range = head.range;
    this.registration = head.registration;
    this.tag = head.tag;
    this.infoCount = head.infos;
    this.stepCount = head.steps;
  }

  get targets() {
    return call.targets();
  }
}

/** The request being decided about. */
export class Request extends View {
  constructor(matter, head) {
    super();
    this.matter = matter;
    this.kind = head.kind;
    this.code = head.code;
    this.range = head.range;
    this.codes = Array.from(head.codes ?? []);
    this.nodes = head.nodes ?? [];
    this.image = head.image ?? undefined;
    this.groupName = head.name ?? undefined;
    this.heads = head.applications ?? [];
    this.stepCount = head.steps;
  }

  get applications() {
    const infos = this.heads.some((head) => head.directives > 0) ? this.infos : [];
    let at = 0;
    return this.heads.map(({ directory, directives, ...rest }) => ({
      ...rest,
      directory: directory ?? undefined,
      directives: infos.slice(at, (at += directives)),
    }));
  }

  get peer() {
    const peer = call.connection();
    return peer ? { pid: peer.pid ?? undefined, release: peer.release } : undefined;
  }

  get groups() {
    return call.groups().map(({ gid, name }) => ({ gid, name: name ?? undefined }));
  }

  get server() {
    return call.server() ?? undefined;
  }

  get targets() {
    const owners = call.owners();
    return call.targets().map((proc, at) => ({ proc, owner: owners[at] ?? undefined }));
  }
}

/** The request being logged. */
export class LogRequest extends View {
  constructor(head) {
    super();
    this.channel = head.channel;
    this.timestamp = head.timestamp === 0 ? undefined : head.timestamp;
    this.stepCount = head.steps;
  }
}

/** What a handler did about an event, or a log channel about a request. */
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
    for (const one of this.infos) {
      const arrays = [];
      call.push(lowerInfo(one, arrays), arrays);
    }
    return this.status;
  }
}

/** What a policy says of a request. */
export class PolicyOutcome extends Outcome {
  constructor(says, status) {
    super(status);
    this.says = says;
  }

  static pass() {
    return new PolicyOutcome("pass");
  }

  static grant() {
    return new PolicyOutcome("grant");
  }

  static deny(code = status.PMIX_ERR_NO_PERMISSIONS, reason = undefined) {
    const outcome = new PolicyOutcome("deny", code);
    return reason === undefined ? outcome : outcome.because(reason);
  }

  because(words) {
    return this.with(REASON, words);
  }

  amend(infos) {
    this.amended = infos;
    return this;
  }

  narrow(range) {
    this.range = range;
    return this;
  }

  rewrite(data) {
    this.rewritten = data;
    return this;
  }

  deliver() {
    super.deliver();
    if (this.amended !== undefined) amendment.amend(lowerContent(this.amended));
    if (this.range !== undefined) {
      try {
        amendment.narrow(this.range);
      } catch {
        // A range that is no narrower changes nothing.
      }
    }
    if (this.rewritten !== undefined) {
      try {
        amendment.rewrite(lowerContent(this.rewritten));
      } catch {
        // Where nothing is to be logged this changes nothing.
      }
    }
    return this.says === "deny" ? { tag: "deny", val: this.status } : { tag: this.says };
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

const decides = (matter, decide) => described((head) => decide(new Request(matter, head)).deliver());

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

/** What a module wishes to handle, as the contract has it. */
export const lowerWish = ({ tag = 0, name = undefined, codes = [], directives = [] }) => ({
  tag,
  name,
  codes,
  directives: lowerContent(directives),
});

/** The interface `lifecycle`, of functions `init` and `stop`. An Error thrown by `init` is why the module will not start. */
export const lifecycle = (init, stop = () => {}) => ({
  init(content) {
    const infos = liftContent(content);
    let wishes;
    try {
      wishes = init({ infos, get: (key) => find(infos, key) }) ?? [];
    } catch (error) {
      throw refusal(error);
    }
    return described(() => wishes.map(lowerWish))();
  },
  stop: described(stop),
});

// Capability `clock`: knows the time.
export { now } from "peal:pmix/clock@0.1.0";

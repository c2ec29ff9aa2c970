// Capability `clock`: reads the clock.
export { now } from "peal:pmix/clock@0.1.0";

/** Capability `sink`: writes to what the admin named and opened for this module. */
export function names(): string[];
/** Writes all of this, at once. What the host refuses is thrown: the number of a status. */
export function write(sink: string, data: string | Uint8Array): void;
/** A mail in its parts; the host makes the message. Without a sender, server or port, those that the admin said count. */
export interface Mail {
  recipients: string[];
  subject?: string;
  text?: string;
  sender?: string;
  server?: string;
  port?: number;
}
/** Hands a mail to a sink that takes mail. What the host refuses is thrown: the number of a status. */
export function submit(sink: string, mail: Mail): void;

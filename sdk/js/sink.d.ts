/** Capability `sink`: writes to the sinks that the admin opened for this module. */
export function names(): string[];
/** Writes all data immediately. Throws the status number of a refusal. */
export function write(sink: string, data: string | Uint8Array): void;
/** Parts of a mail; the host composes the message. Without a sender, server or port, those that the admin configured are used. */
export interface Mail {
  recipients: string[];
  subject?: string;
  text?: string;
  sender?: string;
  server?: string;
  port?: number;
}
/** Passes a mail to a mail sink. Throws the status number of a refusal. */
export function sendMail(sink: string, mail: Mail): void;

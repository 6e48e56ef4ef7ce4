/** The server's own log: facts, never a token, a header or a body. */
export type Logger = (line: LogLine) => void;

export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly [fact: string]: unknown;
}

export const stderrLogger: Logger = (line) => {
  process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), ...line })}\n`);
};

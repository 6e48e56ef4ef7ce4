/** The gate's socket by a short name: a path to it may be longer than a socket's name can be. */
export const SOCKET = "gate.sock";

export function withFolder<T>(folder: string, work: () => T): T {
  const before = process.cwd();
  process.chdir(folder);
  try {
    return work();
  } finally {
    process.chdir(before);
  }
}

/** What Amp wants to do, as the rule `delegate` tells it. */
export interface Question {
  readonly tool: string;
  readonly input: unknown;
}

export interface Verdict {
  readonly allowed: boolean;
  readonly message?: string;
}

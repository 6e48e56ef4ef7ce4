import type { ToolRun } from "./port.ts";

/** The path under which a run finds its tools. */
export function toRunPath({ session, createdAt, process }: ToolRun): string {
  return `/runs/${encodeURIComponent(session)}/${createdAt}/${process}`;
}

export interface RunPath {
  readonly run: ToolRun;
  /** `tools`, `calls/{id}`, or whatever else somebody asked for. */
  readonly rest: readonly string[];
}

export function parseRunPath(path: string): RunPath | undefined {
  const [, runs, session = "", createdAt = "", process = "", ...rest] = path.split("/");
  if (runs !== "runs" || !/^\d{1,15}$/.test(createdAt) || !/^\d{1,9}$/.test(process)) return undefined;
  try {
    const run = {
      session: decodeURIComponent(session),
      createdAt: Number(createdAt),
      process: Number(process),
    };
    return { run, rest };
  } catch {
    return undefined;
  }
}

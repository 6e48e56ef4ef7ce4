import { spawn, type ChildProcess, type StdioOptions } from "node:child_process";
import { constants } from "node:fs";
import { getPriority, setPriority } from "node:os";
import { delimiter, join } from "node:path";
import type { Duplex } from "node:stream";
import { access, stat } from "../../disk/onTheSpot.ts";
import { SluiceError } from "../../contract/index.ts";
import type { SpawnedProcess } from "../port.ts";
import { withoutInherited } from "./inherited.ts";

export interface StartOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdio: StdioOptions;
}

/** The streams of a wrapper. Its stderr is nobody's: what it starts gets one of its own. */
export function toStdio(stdio: SpawnedProcess["stdio"]): ["ignore" | Duplex, "ignore" | Duplex, "ignore"] {
  return [stdio?.stdin ?? "ignore", stdio?.stdout ?? "ignore", "ignore"];
}

/** Starts a program as the leader of a session of its own; answers once it runs. */
export async function startProgram(argv: readonly string[], options: StartOptions): Promise<ChildProcess> {
  const [program = "", ...args] = argv;
  await demandFolder(options.cwd);
  const stdio = withoutInherited(options.stdio);
  const child = spawn(program, args, { ...options, stdio, detached: true });
  if (child.pid !== undefined) yieldToServer(child.pid);
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", (error) => reject(toStartError(program, error)));
  });
  return child;
}

/** How much less of a busy core all that runs in sandboxes asks for than the server does (docs/decisions/0056). */
export const NICENESS = 10;
const LEAST_PRIORITY = 19;

/** What the program starts from now on inherits it. */
function yieldToServer(pid: number): void {
  try {
    setPriority(pid, Math.min(LEAST_PRIORITY, getPriority() + NICENESS));
  } catch {
    // It has ended already, or this system does not let us.
  }
}

/** Fails when the program is nowhere on the path that it would be looked for on. */
export async function demandProgram(program: string, env: Readonly<Record<string, string>>): Promise<void> {
  const folders = program.includes("/") ? [""] : (env["PATH"] ?? "").split(delimiter);
  for (const folder of folders) {
    const file = folder === "" ? program : join(folder, program);
    const runnable = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (runnable) return;
  }
  const detail = `The program ${program} was not found or cannot be run. Install it, or put its folder on the PATH of the server.`;
  throw new SluiceError("agent_not_installed", detail, { program });
}

async function demandFolder(folder: string): Promise<void> {
  const found = await stat(folder).catch(() => undefined);
  if (found?.isDirectory()) return;
  throw new SluiceError(
    "invalid_request",
    `The folder ${folder} to work in is gone. Make it again, or choose another one.`,
  );
}

function toStartError(program: string, error: Error): SluiceError {
  const detail = `${program} could not be started: ${error.message}.`;
  return new SluiceError("internal", detail, { program }, { cause: error });
}

import { defined } from "../../contract/own-keys.ts";
import type { SessionContext } from "../context.ts";
import { toSandboxData, lacks, type SessionSandbox } from "./session-sandbox.ts";

/** Freezes every process of the sandbox. */
export async function pauseSandbox(
  { writer, exclusive, commit }: SessionContext,
  sessionSandbox: SessionSandbox,
  { message, isWanted = () => true }: { message?: string; isWanted?: () => boolean } = {},
): Promise<void> {
  const sandbox = await sessionSandbox.made();
  await exclusive(async () => {
    if (writer.fold.paused || !isWanted()) return;
    if (!sandbox.pause) throw lacks(sandbox, "pause");
    await sandbox.pause();
    const data = { ...toSandboxData(sandbox), ...defined({ message }) };
    await commit(writer.drafts([{ type: "sandbox.paused", source: "daemon", data }]));
  });
}

/** Resumes the processes of a paused sandbox. */
export async function resumeSandbox(
  { writer, exclusive, commit }: SessionContext,
  sessionSandbox: SessionSandbox,
): Promise<void> {
  if (!(await exclusive(async () => writer.fold.paused))) return;
  const sandbox = await sessionSandbox.made();
  await exclusive(async () => {
    if (!writer.fold.paused) return;
    if (!sandbox.resume) throw lacks(sandbox, "resume");
    await sandbox.resume();
    await commit(
      writer.drafts([{ type: "sandbox.resumed", source: "daemon", data: toSandboxData(sandbox) }]),
    );
  });
}

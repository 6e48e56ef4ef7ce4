import { createE2bProvider } from "../../../src/sandbox/e2b/provider.ts";
import type { SandboxProvider } from "../../../src/sandbox/port.ts";
import { makeFolder } from "../remote/workbench.ts";
import { startE2b, type E2bEmulator } from "./e2b-emulator.ts";

/** An emulator with a provider; `reopen` gives one as another server has it. */
export async function openE2b(): Promise<{
  e2b: E2bEmulator;
  provider: SandboxProvider;
  reopen: () => SandboxProvider;
}> {
  const e2b = await startE2b();
  const records = await makeFolder();
  const reopen = (): SandboxProvider => createE2bProvider({ records, env: e2b.env });
  return { e2b, provider: reopen(), reopen };
}

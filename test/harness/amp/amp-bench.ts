import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import type { SessionSpec, SluiceEvent } from "../../../src/contract/index.ts";
import { amp } from "../../../src/harness/amp/harness.ts";
import type { Harness } from "../../../src/harness/port.ts";
import { openEngine, readAll, say, script, type TestEngine, waitFor } from "../../support/engine.ts";
import type { Reply } from "../agent-bench.ts";

export const KEY = "sgamp_test_0123456789abcdef";

/**
 * An engine with Amp. Amp's agent loop runs on Amp's server, so tests have no real turn: a stub executable prints the
 * lines that Amp documents. Everything around it is real, the gate and its questions included.
 */
export interface AmpBench {
  readonly test: TestEngine;
  create(id: string, more?: Partial<SessionSpec>): Promise<void>;
  /** Sends the script and answers the first permission with `reply`. */
  answered(id: string, steps: unknown[], reply: Reply, message?: string): Promise<SluiceEvent[]>;
  /** The processes with the stub's folder in their command line. */
  processes(): string[];
  close(): Promise<void>;
}

export async function openAmp(options: Parameters<typeof openEngine>[0] = {}): Promise<AmpBench> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-amp-"));
  const { PATH, AMP_API_KEY } = process.env;
  const stub = join(import.meta.dirname, "stub-amp.mjs");
  chmodSync(stub, 0o755);
  symlinkSync(stub, join(folder, "amp"));
  process.env["PATH"] = `${folder}${delimiter}${PATH}`;
  delete process.env["AMP_API_KEY"];
  const test = await openEngine({ harnesses: [amp as Harness], defaultSandbox: "local", ...options });
  return {
    test,
    async create(id, more = {}) {
      const env = { AMP_API_KEY: KEY, AMP_URL: "http://127.0.0.1:9", ...more.env };
      await test.engine.create(id, { agent: "amp", ...more, env });
    },
    async answered(id, steps, reply, message) {
      const { turnId, after } = await say(test.engine, id, script(...steps));
      const { data } = await waitFor(test.log, id, "permission.requested", { after });
      const words = message === undefined ? {} : { message };
      await test.engine.resolvePermission(id, data.permission_id, { reply, ...words });
      await waitFor(test.log, id, "turn.ended", { after, where: (event) => event.data.turn_id === turnId });
      return (await readAll(test.log, id)).slice(after);
    },
    processes: () =>
      readdirSync("/proc").filter((name) => /^\d+$/.test(name) && cmdline(name).includes(folder)),
    async close() {
      await test.close();
      process.env["PATH"] = PATH;
      if (AMP_API_KEY !== undefined) process.env["AMP_API_KEY"] = AMP_API_KEY;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function cmdline(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

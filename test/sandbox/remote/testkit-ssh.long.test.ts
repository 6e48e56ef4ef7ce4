import { describe, it } from "vitest";
import { findRunnerProgram } from "../../../src/sandbox/remote/programs.ts";
import { parseSshAddress } from "../../../src/sandbox/ssh/address.ts";
import { SshMachine } from "../../../src/sandbox/ssh/connection.ts";
import { runnerTestkit } from "../../../src/sandbox/testkit.ts";
import { forWholeFile } from "./workbench.ts";
import { NO_SSHD, startSshd } from "./sshd.ts";

/** One sshd for all cases: a case has sandboxes of its own. */
let starting: Promise<SshMachine> | undefined;

async function start(): Promise<SshMachine> {
  const { url, env } = await forWholeFile(() => startSshd());
  return new SshMachine(parseSshAddress(url)!, { program: findRunnerProgram(), env });
}

runnerTestkit({
  name: `ssh, a real sshd${NO_SSHD ? ` (${NO_SSHD})` : ""}`,
  async open() {
    starting ??= start();
    return { dial: (await starting).dial, close: async () => {} };
  },
  describe: describe.skipIf(NO_SSHD !== undefined),
  it,
});

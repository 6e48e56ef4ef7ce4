import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import ssh, { type Connection, type ServerChannel } from "ssh2";
import { describe, expect, it } from "vitest";
import { parseSshAddress } from "../../../src/sandbox/ssh/address.ts";
import { SshMachine } from "../../../src/sandbox/ssh/connection.ts";
import { makeFolder, onCleanup } from "./workbench.ts";

const { Server, utils } = ssh;
const LIMITS = { openMs: 200, startMs: 200, copyMs: 200 };

/** A machine that lets everybody in, and answers commands as the test says. */
async function openMachine(onExec: (accept: () => ServerChannel, command: string) => void) {
  const folder = await makeFolder();
  const keys = utils.generateKeyPairSync("ed25519");
  const connections = new Set<Connection>();
  let closed = 0;
  const server = new Server({ hostKeys: [keys.private] }, (connection) => {
    connections.add(connection);
    connection
      .on("error", () => {})
      .on("close", () => (closed += 1))
      .on("authentication", (context) => context.accept())
      .on("ready", () =>
        connection.on("session", (accept) =>
          accept().on("exec", (acceptExec, _, { command }) => onExec(acceptExec, command)),
        ),
      );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onCleanup(async () => {
    for (const connection of connections) connection.end();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const files = {
    key: join(folder, "key"),
    hosts: join(folder, "hosts"),
    program: join(folder, "runner.cjs"),
  };
  await writeFile(files.key, utils.generateKeyPairSync("ed25519").private, { mode: 0o600 });
  await writeFile(files.hosts, `[127.0.0.1]:${port} ${keys.public}\n`);
  await writeFile(files.program, "x".repeat(4_000_000));
  const address = parseSshAddress(`ssh://somebody@127.0.0.1:${port}`);
  if (!address) throw new Error("the address is not one");
  const env = { SLUICE_SSH_KEY: files.key, SLUICE_SSH_KNOWN_HOSTS: files.hosts };
  const machine = new SshMachine(address, { program: files.program, env, limits: LIMITS });
  return { machine, closed: () => closed };
}

const unreachable = { code: "sandbox_unreachable", message: expect.stringContaining("it does not answer") };

describe("a machine that does not answer", { timeout: 20_000 }, () => {
  it("does not hold a start for ever when a command says nothing", async () => {
    const { machine, closed } = await openMachine((accept) => void accept());
    await expect(machine.dial()).rejects.toMatchObject(unreachable);
    await expect(machine.dial()).rejects.toMatchObject(unreachable);
    await expect.poll(closed).toBe(2);
  });

  it("does not hold a start for ever when it does not even open the command", async () => {
    const { machine } = await openMachine(() => {});
    await expect(machine.dial()).rejects.toMatchObject(unreachable);
  });

  it("does not hold a start for ever when it drips", async () => {
    const { machine } = await openMachine((accept) => {
      const stream = accept();
      const drip = setInterval(() => stream.write("still here\n"), 20);
      stream.on("close", () => clearInterval(drip));
      onCleanup(async () => clearInterval(drip));
    });
    await expect(machine.dial()).rejects.toMatchObject(unreachable);
  });

  it("does not hold a start for ever when it does not take the runner's file", async () => {
    const { machine } = await openMachine((accept, command) => {
      const stream = accept();
      if (command.includes("command -v node")) {
        stream.write("need\n");
        stream.exit(0);
        stream.end();
      }
    });
    await expect(machine.dial()).rejects.toMatchObject(unreachable);
  });
});

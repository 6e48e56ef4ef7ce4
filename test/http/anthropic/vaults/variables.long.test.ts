import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createPlainServer, type IncomingMessage } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createAuthority, issueCertificate } from "../../../../src/sandbox/egress/certificate.ts";
import { describeWithBwrap } from "../../../sandbox/egress/lab.ts";
import { startServer, type TestServer } from "../../../support/server.ts";
import { type Event, history, isEnd, makeSession, message, ofType, text, watch } from "../session-bench.ts";

const SECRET = "variable-secret-8c1d77e0";
const NEXT_SECRET = "variable-secret-after-b2a9";

describeWithBwrap("B6, I5: a vault's variable", () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-variables-"));
  const seen: { key: string | undefined; body: string }[] = [];
  let server: TestServer;
  let beta: Anthropic["beta"];
  let right: Server;
  let wrong: ReturnType<typeof createPlainServer>;
  let [port, wrongPort] = [0, 0];

  beforeAll(async () => {
    // A server with a certificate of an authority that this machine trusts.
    const authority = createAuthority();
    writeFileSync(join(folder, "authority.pem"), authority.cert);
    const listener = async (
      request: IncomingMessage,
      response: { end(text: string): void },
    ): Promise<void> => {
      let body = "";
      for await (const chunk of request) body += String(chunk);
      const key = request.headers["x-key"] as string | undefined;
      seen.push({ key, body });
      response.end(`got ${key}\n`);
    };
    right = createServer(
      issueCertificate(authority, "127.0.0.1"),
      (request, response) => void listener(request, response),
    );
    wrong = createPlainServer((request, response) => void listener(request, response));
    await new Promise<void>((resolve) => right.listen(0, "127.0.0.1", resolve));
    await new Promise<void>((resolve) => wrong.listen(0, "127.0.0.2", resolve));
    [port, wrongPort] = [right, wrong].map((one) => (one.address() as AddressInfo).port) as [number, number];
    server = await startServer({ env: { NODE_EXTRA_CA_CERTS: join(folder, "authority.pem") } });
    beta = new Anthropic({ apiKey: server.token, baseURL: `${server.url}/anthropic`, maxRetries: 2 }).beta;
  }, 60_000);
  afterAll(async () => {
    await server.close();
    for (const one of [right, wrong]) {
      one.closeAllConnections();
      await new Promise((resolve) => one.close(resolve));
    }
    rmSync(folder, { recursive: true });
  });

  const lend = async (networking: object): Promise<{ vault: string; credential: string }> => {
    const vault = await beta.vaults.create({ display_name: "v" });
    const auth = { type: "environment_variable", secret_name: "KEY", secret_value: SECRET, networking };
    const credential = await beta.vaults.credentials.create(vault.id, { auth: auth as never });
    return { vault: vault.id, credential: credential.id };
  };
  const open = async (vault: string, allowed_hosts: string[]): Promise<string> => {
    const networking = { type: "limited", allowed_hosts };
    const environment = await beta.environments.create({
      name: `variables ${allowed_hosts.join(" ")} ${Math.random()}`,
      config: { type: "cloud", networking } as never,
    });
    const { id } = await makeSession(
      { beta },
      { session: { environment_id: environment.id, vault_ids: [vault] } },
    );
    return id;
  };
  const run = (id: string, ...steps: object[]): Promise<Event[]> =>
    watch({ beta }, id, () => beta.sessions.events.send(id, { events: [message(text(...steps))] }), isEnd);
  const urls = (): string[] => [`https://127.0.0.1:${port}/`, `http://127.0.0.2:${wrongPort}/`];

  it("is a placeholder in the sandbox and its value at its own host alone", async () => {
    const { vault, credential } = await lend({ type: "limited", allowed_hosts: ["127.0.0.1"] });
    const id = await open(vault, [`127.0.0.1:${port}`, `127.0.0.2:${wrongPort}`]);
    const ask = `for u in ${urls().join(" ")}; do curl -sS -H "X-Key: $KEY" -d "$KEY" $u; done`;
    const events = await run(id, {
      shell: `${ask}; env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'`,
    });
    const [result] = ofType(events, "agent.tool_result");
    const said = JSON.stringify(result?.content);
    const [, placeholder = ""] = /\\nKEY=(\w+)/.exec(said) ?? [];
    expect(placeholder).toMatch(/^SLUICE_SECRET_[0-9a-f]{40}$/);
    expect(seen.splice(0)).toEqual([
      { key: SECRET, body: placeholder },
      { key: placeholder, body: placeholder },
    ]);
    expect(said).toContain(`got ${placeholder}\\ngot ${placeholder}`);
    expect(ofType(events, "session.error")).toEqual([]);

    // A new value and location apply to the running program, also after the server's end.
    const auth = {
      type: "environment_variable",
      secret_value: NEXT_SECRET,
      injection_location: { body: true },
    };
    const running = run(id, {
      shell: `${ask}; touch on; while [ ! -e go ]; do sleep 0.05; done; ${ask}; touch done; while [ ! -e end ]; do sleep 0.05; done; ${ask}`,
    }).catch(() => []);
    await until(async () => seen.length === 2);
    await beta.vaults.credentials.update(credential, { vault_id: vault, auth: auth as never });
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    const [workspace] = await find(server.data, "on");
    writeFileSync(join(workspace ?? "", "go"), "");
    await until(async () => seen.length === 4 && (await find(server.data, "done")).length === 1);
    await server.kill();
    writeFileSync(join(workspace ?? "", "end"), "");
    await until(async () => seen.length === 6);
    await server.start();
    await running;
    await until(async () => {
      const last = (await history({ beta }, id)).at(-1);
      return last !== undefined && isEnd(last);
    });
    expect(seen.splice(0).map(({ key, body }) => [key, body])).toEqual([
      [SECRET, placeholder],
      [placeholder, placeholder],
      [NEXT_SECRET, NEXT_SECRET],
      [placeholder, placeholder],
      [NEXT_SECRET, NEXT_SECRET],
      [placeholder, placeholder],
    ]);

    // After a restart the placeholder is the same, until the credential is archived.
    await run(id, { shell: ask });
    expect(seen.splice(0)[0]).toEqual({ key: NEXT_SECRET, body: NEXT_SECRET });
    await beta.vaults.credentials.archive(credential, { vault_id: vault });
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await run(id, { shell: ask });
    expect(seen.splice(0)[0]?.key).toBe(placeholder);

    const told = JSON.stringify(await history({ beta }, id));
    for (const value of [SECRET, NEXT_SECRET]) {
      expect(told).not.toContain(value);
      expect(server.stderr()).not.toContain(value);
      const found = promisify(execFile)("grep", ["-rlaF", "--devices=skip", value, server.data]);
      await expect(found).rejects.toMatchObject({ code: 1 });
    }
  }, 120_000);

  it("is reported as unreachable if the network excludes its host", async () => {
    const { vault, credential } = await lend({
      type: "limited",
      allowed_hosts: ["api.example.test", "127.0.0.1"],
    });
    const id = await open(vault, [`127.0.0.1:${port}`]);
    const events = await run(id, { shell: "echo $KEY" });
    expect(ofType(events, "session.error").map(({ error }) => error)).toEqual([
      {
        type: "credential_host_unreachable_error",
        message: expect.stringContaining("does not allow api.example.test"),
        retry_status: { type: "exhausted" },
        credential_id: credential,
        vault_id: vault,
      },
    ]);
    expect(JSON.stringify(events)).toContain("SLUICE_SECRET_");
  });
});

async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await isSo()); tries++) {
    if (tries === 600) throw new Error("it never came to be");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The folders below with a file of this name. */
async function find(folder: string, name: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)("find", [
    folder,
    "-name",
    name,
    "-type",
    "f",
    "-printf",
    "%h\\n",
  ]);
  return stdout.split("\n").filter((line) => line !== "");
}

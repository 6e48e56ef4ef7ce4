import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { Workbench } from "../cli/workbench.ts";
import { describeFortress } from "./fortress-bench.ts";
import { missing, runInInternet } from "./internet.ts";
import { KEYS, callerOf, made, serveTenants } from "./tenant-calls.ts";

const PRIVATE = [
  "127.0.0.1",
  "127.1",
  "2130706433",
  "0x7f.0.0.1",
  "0177.0.0.1",
  "localhost",
  "LOCALHOST.",
  "a.localhost",
  "0.0.0.0",
  "10.0.0.5",
  "172.16.3.4",
  "192.168.1.1",
  "100.64.0.1",
  "169.254.169.254",
  "[::1]",
  "[::]",
  "[fe80::1]",
  "[fd00::1]",
  "[::ffff:127.0.0.1]",
  "[::ffff:a00:5]",
  "[64:ff9b::7f00:1]",
  "[2002:7f00:1::]",
];

describeFortress("what a tenant names", (user) => {
  it("is refused at once where it is an address of this machine or its network", async () => {
    const server = await serveTenants(user);
    const call = callerOf(server, "sk-team-a");
    const vault = await made(call, "/vaults", { display_name: "v" });
    const environment = await made(call, "/environments", { name: "open" });
    const agent = await made(call, "/agents", { name: "a", model: "scripted" });
    const session = await made(call, "/sessions", { agent, environment_id: environment });
    const refresh = { client_id: "c", refresh_token: "r", token_endpoint_auth: { type: "none" } };
    const good = "https://mcp.example.com/";
    const answers: string[] = [];
    for (const host of PRIVATE) {
      const url = `http://${host}:8080/x`;
      const limited = { type: "cloud", networking: { type: "limited", allowed_hosts: [`${host}:8080`] } };
      const server = { type: "url", name: "docs", url };
      const tools = [{ type: "mcp_toolset", mcp_server_name: "docs" }];
      const oauth = { type: "mcp_oauth", mcp_server_url: good, access_token: "t" };
      const overrides = { type: "agent_with_overrides", id: agent, mcp_servers: [server], tools };
      const repository = { type: "github_repository", url: `${url}.git` };
      for (const [path, body] of [
        ["/environments", { name: `e ${host}`, config: limited }],
        [`/environments/${environment}`, { config: limited }],
        ["/agents", { name: "a", model: "scripted", mcp_servers: [server], tools }],
        [`/agents/${agent}`, { mcp_servers: [server], tools }],
        ["/sessions", { agent: overrides, environment_id: environment }],
        [`/sessions/${session}`, { agent: { mcp_servers: [server], tools } }],
        ["/sessions", { agent, environment_id: environment, resources: [repository] }],
        [
          `/vaults/${vault}/credentials`,
          { auth: { type: "static_bearer", mcp_server_url: url, token: "t" } },
        ],
        [`/vaults/${vault}/credentials`, { auth: { ...oauth, mcp_server_url: url } }],
        [
          `/vaults/${vault}/credentials`,
          { auth: { ...oauth, refresh: { ...refresh, token_endpoint: url } } },
        ],
      ] as const) {
        const { status, text } = await call("POST", path, body);
        answers.push(
          `${host} ${path.replaceAll(/\w+_0\w+/g, "ID")} ${status} ${/which a workspace|allow list|expected/.test(text)}`,
        );
      }
    }
    expect(answers.filter((answer) => !answer.endsWith("400 true"))).toEqual([]);
  });

  it("is never a file, a folder or another way of git's to get at this machine", async () => {
    const server = await serveTenants(user);
    const call = callerOf(server, "sk-team-a");
    const environment = await made(call, "/environments", { name: "open" });
    const agent = await made(call, "/agents", { name: "a", model: "scripted" });
    for (const url of [
      `file://${server.data}`,
      "ssh://git@10.0.0.5/a.git",
      "git://10.0.0.5/a.git",
      "ext::sh -c true",
      "http://user:word@example.com/a.git",
    ]) {
      const resources = [{ type: "github_repository", url }];
      const { status } = await call("POST", "/sessions", { agent, environment_id: environment, resources });
      expect([url, status]).toEqual([url, 400]);
    }
  });

  it("chooses neither the sandbox nor the program, nor anything else of the host", async () => {
    const server = await serveTenants(user);
    const call = callerOf(server, "sk-team-a");
    const environment_id = await made(call, "/environments", { name: "open" });
    const host = {
      sandbox: "local",
      directory: "/",
      network: "full",
      command: ["sh"],
      env: { A: "b" },
      secrets: { A: "env:HOME" },
      fork: { session: "x" },
    };
    const agent = await made(call, "/agents", { name: "a", model: "scripted", ...host });
    const id = await made(call, "/sessions", { agent, environment_id, ...host });
    expect(await server.client.sessions.get(id)).toMatchObject({ sandbox: "bwrap", directory: null });
    const metadata = { harness: "acp" };
    const acp = await made(call, "/agents", {
      name: "a",
      model: "sh",
      metadata,
      command: ["sh", "-c", "id"],
    });
    const refused = await call("POST", "/sessions", { agent: acp, environment_id });
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("needs the command")]);
  });
});

const isPublic = (line: string): boolean => line.startsWith("93.184.2.2 ");

interface World {
  readonly [what: string]: Record<string, Seen> & Seen;
}

interface Seen {
  readonly answered: unknown;
  readonly arrived: readonly string[];
}

describe.skipIf(missing !== undefined)(
  `the names of a tenant${missing ? ` (skipped: ${missing})` : ""}`,
  () => {
    let world: World;
    beforeAll(async () => {
      world = (await runInInternet("tenant-world.mjs")) as World;
      expect(world["failure"]).toBeUndefined();
    }, 300_000);

    const WAYS = ["mcp", "clone", "inside", "validate", "refresh"] as const;
    const KINDS = ["private", "loopback", "metadata", "own"] as const;
    const seen = (what: string, way: string): Seen => (world[what] as Record<string, Seen>)[way] as Seen;

    it.each(WAYS)("lead to the internet: %s", (way) => {
      const { answered, arrived } = seen("public", way);
      expect(arrived.length).toBeGreaterThan(0);
      expect(arrived.every(isPublic)).toBe(true);
      const proof = {
        mcp: "a page of 93.184.2.2",
        clone: "over http",
        inside: "agent.tool_result",
        validate: '"valid"',
        refresh: '"succeeded"',
      };
      expect(JSON.stringify(answered)).toContain(proof[way]);
    });

    it.each(KINDS.flatMap((kind) => WAYS.map((way) => [kind, way] as const)))(
      "lead nowhere where they resolve to a %s address: %s",
      (kind, way) => {
        const { answered, arrived } = seen(kind, way);
        expect(arrived.filter((line) => !isPublic(line))).toEqual([]);
        const text = JSON.stringify(answered);
        expect(text).not.toMatch(/a page of|over http|"valid"|"succeeded"/);
      },
    );

    it("tell a tenant nothing of their addresses", () => {
      const cloned = KINDS.map((kind) => JSON.stringify(seen(kind, "clone").answered));
      for (const text of cloned) expect(text).not.toMatch(/10\.0\.0\.5|127\.0\.0\.1|169\.254|93\.184\.1\.1/);
      const validated = KINDS.map(
        (kind) => (seen(kind, "validate").answered as { mcp_probe: unknown }).mcp_probe,
      );
      for (const probe of validated) expect(probe).toEqual({ method: "initialize", http_response: null });
    });

    it("lead to an MCP server with the token of the tenant's own vault", () => {
      const { answered, arrived } = world["vault"] as Seen;
      expect(arrived.every(isPublic)).toBe(true);
      expect(String(answered)).toContain("a page of 93.184.2.2");
    });

    it("lead nowhere else by a redirect: of a clone, of an MCP server", () => {
      for (const { answered, arrived } of [world["redirected"], world["redirectedMcp"]] as Seen[]) {
        expect(arrived.length).toBeGreaterThan(0);
        expect(arrived.filter((line) => !isPublic(line))).toEqual([]);
        expect(String(answered)).not.toMatch(/over http|a page of/);
      }
    });

    it("do not restrict the operator of the server", () => {
      const { answered, arrived } = world["owner"] as Seen;
      expect(arrived).toContain("10.0.0.5 /project.git/info/refs");
      expect(String(answered)).toContain("a page of 10.0.0.5");
    });
  },
);

const refusedWith = async (args: string[], keys: object = KEYS): Promise<string> => {
  const bench = new Workbench();
  try {
    const file = join(bench.work, "keys.json");
    await writeFile(file, JSON.stringify(keys), { mode: 0o600 });
    const { code, out, err } = await bench.run(["serve", "--port", "0", "--keys", file, ...args]);
    expect([code, out]).toEqual([2, ""]);
    return err;
  } finally {
    await bench.close();
  }
};

describe("sluice serve --keys", () => {
  it("is refused with --no-token, also with --insecure", async () => {
    expect(await refusedWith(["--no-token"])).toContain("Leave --no-token out");
    expect(await refusedWith(["--no-token", "--insecure"])).toContain("Leave --no-token out");
  });

  it("is refused with the local sandbox", async () => {
    const bench = new Workbench();
    try {
      const file = join(bench.work, "keys.json");
      await writeFile(file, JSON.stringify(KEYS), { mode: 0o600 });
      // By name where it can be named, else by a machine that has no other.
      const isNamed = (await bench.run(["serve", "--help"])).out.includes("--sandbox");
      const args = ["serve", "--port", "0", "--keys", file, ...(isNamed ? ["--sandbox", "local"] : [])];
      const only = join(bench.work, "bin");
      await mkdir(only);
      await symlink(process.execPath, join(only, "node"));
      const PATH = isNamed ? process.env["PATH"] : only;
      const { code, out, err } = await bench.run(args, { env: { PATH } });
      expect([code, out, err]).toEqual([2, "", expect.stringContaining("the sandbox local")]);
    } finally {
      await bench.close();
    }
  });

  it("is refused where a workspace would have the operator's name or the server's", async () => {
    expect(await refusedWith([], { "sk-a": "default" })).toContain("the server's own");
    expect(await refusedWith([], { "sk-a": "sluice" })).toContain("the server's own");
    expect(await refusedWith(["--token", "sk-a"], { "sk-a": "team" })).toContain("the server's own token");
  });
});

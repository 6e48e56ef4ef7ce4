import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SessionSpec } from "../../src/contract/index.ts";
import { harnesses } from "../../src/harness/index.ts";
import type { Credential, Harness } from "../../src/harness/port.ts";
import { permits } from "../../src/sandbox/index.ts";
import { readCredentials } from "../../src/sessions/secrets/credentials.ts";
import { keepInFiles } from "../../src/sessions/secrets/kept.ts";

const KEPT = keepInFiles("/nowhere");

/** Domains with public registration of hosts, buckets or pages. */
const EVERYBODYS = [
  "amazonaws.com",
  "s3.amazonaws.com",
  "s3.us-east-1.amazonaws.com",
  "execute-api.us-east-1.amazonaws.com",
  "api.aws",
  "on.aws",
  "cloudfront.net",
  "googleapis.com",
  "storage.googleapis.com",
  "appspot.com",
  "run.app",
  "cloudfunctions.net",
  "googleusercontent.com",
  "web.app",
  "azure.com",
  "ai.azure.com",
  "services.ai.azure.com",
  "windows.net",
  "blob.core.windows.net",
  "azurewebsites.net",
  "azureedge.net",
  "cloudapp.net",
  "workers.dev",
  "pages.dev",
  "r2.dev",
  "r2.cloudflarestorage.com",
  "vercel.app",
  "netlify.app",
  "herokuapp.com",
  "fly.dev",
  "onrender.com",
  "ngrok.io",
  "ngrok-free.app",
  "digitaloceanspaces.com",
  "ondigitalocean.app",
  "backblazeb2.com",
  "github.io",
  "githubusercontent.com",
  "gitlab.io",
  "huggingface.co",
  "hf.space",
  "com",
  "ai",
  "io",
  "net",
  "org",
  "dev",
  "app",
  "co.uk",
];

/** Where code and pastes are published. */
const CODE_HOSTS = [
  "github.com",
  "api.github.com",
  "gist.github.com",
  "raw.githubusercontent.com",
  "gitlab.com",
  "bitbucket.org",
  "codeberg.org",
  "sr.ht",
  "pastebin.com",
];

const PUBLIC_HOSTS = [
  ...CODE_HOSTS,
  ...EVERYBODYS.map((domain) => `attacker.${domain}`),
  "storage.googleapis.com",
  "www.googleapis.com",
  "drive.googleapis.com",
  "attacker.s3.us-east-1.amazonaws.com",
  "s3.us-east-1.amazonaws.com",
  "attacker-bucket.storage.googleapis.com",
];

/** Session settings that change the model's host. */
const SPECS: Readonly<Record<string, readonly Partial<SessionSpec>[]>> = {
  claude: [
    { env: { CLAUDE_CODE_USE_BEDROCK: "1", AWS_REGION: "eu-central-1" } },
    { env: { CLAUDE_CODE_USE_BEDROCK: "1", AWS_ROLE_ARN: "arn:aws:iam::1:role/x" } },
    { env: { CLAUDE_CODE_USE_VERTEX: "1", CLOUD_ML_REGION: "us-east5" } },
    { env: { CLAUDE_CODE_USE_VERTEX: "true", CLOUD_ML_REGION: "global" } },
    { env: { CLAUDE_CODE_USE_FOUNDRY: "1", ANTHROPIC_FOUNDRY_RESOURCE: "my-resource" } },
  ],
  gemini: [
    { env: { GOOGLE_GENAI_USE_VERTEXAI: "true", GOOGLE_CLOUD_LOCATION: "europe-west1" } },
    { env: { GOOGLE_GENAI_USE_VERTEXAI: "true", GOOGLE_CLOUD_LOCATION: "global" } },
  ],
  opencode: [
    "anthropic/claude-opus-4-5",
    "openai/gpt-5",
    "github-copilot/gpt-5",
    "google/gemini-3",
    "unheard-of/model",
    "claude-opus-4-5",
    "nameless",
  ].map((model) => ({ model })),
};

/** One login of every file, in its CLI's own form. */
const LATER = Date.now() + 3_600_000;
const token = `x.${Buffer.from(JSON.stringify({ exp: Math.floor(LATER / 1000) })).toString("base64url")}.x`;
const LOGINS: Readonly<Record<string, readonly object[]>> = {
  ".claude/.credentials.json": [{ claudeAiOauth: { accessToken: "a", refreshToken: "r", expiresAt: LATER } }],
  ".codex/auth.json": [
    { tokens: { id_token: token, access_token: token, refresh_token: "r" } },
    { OPENAI_API_KEY: "k" },
  ],
  ".gemini/oauth_creds.json": [{ access_token: "a", refresh_token: "r", expiry_date: LATER }],
  ".grok/auth.json": [{ "https://auth.x.ai::id": { key: "k", refresh_token: "r" } }],
  ".local/share/opencode/auth.json": [
    {
      "github-copilot": { type: "oauth", refresh: "r", access: "a", expires: 0 },
      groq: { type: "api", key: "k" },
    },
    { anthropic: { type: "api", key: "k" }, openai: { type: "api", key: "k" } },
  ],
  ".local/share/amp/secrets.json": [{ "apiKey@https://ampcode.com/": "k" }],
};

interface Row {
  readonly name: string;
  readonly harness: Harness;
  readonly spec: SessionSpec;
  readonly credential: Credential | undefined;
  readonly content: string | undefined;
}

const ROWS: readonly Row[] = harnesses
  .filter(({ id }) => id !== "acp")
  .flatMap((harness) =>
    [{}, ...(SPECS[harness.id] ?? [])].flatMap((partial) => {
      const spec: SessionSpec = Object.assign({ agent: harness.id }, partial);
      const said = JSON.stringify(partial);
      const found = (harness.credentials ?? []).flatMap((credential): Row[] => {
        if ("env" in credential)
          return [
            {
              name: `${harness.id} ${said} with ${credential.env}`,
              harness,
              spec,
              credential,
              content: undefined,
            },
          ];
        return (LOGINS[credential.file] ?? []).map((login) => ({
          name: `${harness.id} ${said} with ${credential.file} ${Object.keys(login)[0]}`,
          harness,
          spec,
          credential,
          content: JSON.stringify(login),
        }));
      });
      const name = `${harness.id} ${said} with nothing`;
      const nothing: Row = { name, harness, spec, credential: undefined, content: undefined };
      return [nothing].concat(found);
    }),
  );

describe("default allow lists", () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-lists-"));
  const path = process.env["PATH"];

  beforeAll(() => {
    for (const { id } of harnesses) writeFileSync(join(folder, id), "#!/bin/sh\n", { mode: 0o755 });
    process.env["PATH"] = `${folder}${delimiter}${path}`;
  });
  afterAll(() => {
    process.env["PATH"] = path;
    rmSync(folder, { recursive: true, force: true });
  });

  it("knows a login of every file that a harness names", () => {
    const files = harnesses.flatMap(({ credentials = [] }) =>
      credentials.flatMap((known) => ("file" in known && !known.isCompanion ? [known.file] : [])),
    );
    expect(files.sort()).toEqual(Object.keys(LOGINS).sort());
  });

  it.each(ROWS)("$name: neither a cloud's domain nor a host of code", async (row) => {
    const hosts = await hostsOf(row);
    for (const host of PUBLIC_HOSTS)
      expect(permits(hosts, host), `${host} by ${hosts.join(" ")}`).toBe(false);
    const wildcards = hosts.filter((host) => host.includes("*"));
    for (const pattern of wildcards) expect(EVERYBODYS, pattern).not.toContain(pattern.replace("*.", ""));
    // Amp's own domain is the one wildcard: its server hands out hosts below it.
    expect(wildcards.filter((pattern) => pattern !== "*.ampcode.com")).toEqual([]);
  });

  it.each<[string, Partial<SessionSpec>, Record<string, string>, string[]]>([
    ["claude", {}, { ANTHROPIC_API_KEY: "k" }, ["api.anthropic.com"]],
    [
      "claude",
      { env: { CLAUDE_CODE_USE_BEDROCK: "1", AWS_REGION: "eu-west-1" } },
      {},
      ["bedrock-runtime.eu-west-1.amazonaws.com", "bedrock.eu-west-1.amazonaws.com"],
    ],
    [
      "claude",
      { env: { CLAUDE_CODE_USE_VERTEX: "1", CLOUD_ML_REGION: "europe-west1" } },
      {},
      ["europe-west1-aiplatform.googleapis.com", "oauth2.googleapis.com"],
    ],
    ["codex", {}, { OPENAI_API_KEY: "k" }, ["api.openai.com"]],
    ["gemini", {}, { GEMINI_API_KEY: "k" }, ["generativelanguage.googleapis.com"]],
    ["gemini", {}, {}, ["cloudcode-pa.googleapis.com", "oauth2.googleapis.com"]],
    ["grok", {}, { XAI_API_KEY: "k" }, ["api.x.ai"]],
    [
      "opencode",
      { model: "mistral/large" },
      { ANTHROPIC_API_KEY: "k", MISTRAL_API_KEY: "k" },
      ["api.mistral.ai"],
    ],
    ["opencode", {}, { GROQ_API_KEY: "k", OPENAI_API_KEY: "k" }, ["api.openai.com"]],
    ["opencode", {}, {}, ["opencode.ai"]],
  ])("%s %j with %j reaches its model's host alone", async (agent, partial, env, expected) => {
    const harness = harnesses.find(({ id }) => id === agent) as Harness;
    const spec: SessionSpec = { agent, ...partial };
    const found = await readCredentials(harness, spec, { kept: KEPT, host: { env, home: "/nowhere" } });
    expect(harness.launch(spec, { ...PATHS, env: found.env }).hosts).toEqual(expected);
  });

  it.each([
    ["claude", "AWS_REGION", { CLAUDE_CODE_USE_BEDROCK: "1" }],
    ["claude", "ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION", { CLAUDE_CODE_USE_BEDROCK: "1" }],
    ["claude", "CLOUD_ML_REGION", { CLAUDE_CODE_USE_VERTEX: "1" }],
    ["claude", "VERTEX_REGION_CLAUDE_HAIKU_4_5", { CLAUDE_CODE_USE_VERTEX: "1" }],
    ["claude", "ANTHROPIC_FOUNDRY_RESOURCE", { CLAUDE_CODE_USE_FOUNDRY: "1" }],
    ["gemini", "GOOGLE_CLOUD_LOCATION", { GOOGLE_GENAI_USE_VERTEXAI: "true" }],
  ])("%s: a %s that is no word of a host's name is refused, and said so", (agent, variable, env) => {
    const harness = harnesses.find(({ id }) => id === agent) as Harness;
    for (const value of [
      "x.evil.com/",
      "evil.com#",
      "*",
      "*.x",
      "a b",
      "",
      "-a",
      "x\n",
      "évil",
      "A",
      "@evil.com",
      "[::1]",
    ]) {
      const spec: SessionSpec = { agent, env: { ...env, [variable]: value } };
      expect(() => harness.check?.(spec), value).toThrow(new RegExp(variable));
      expect(() => harness.launch(spec, PATHS), value).toThrow(new RegExp(variable));
    }
  });

  it("takes no wildcard from a base URL or an MCP server's address", () => {
    const claude = harnesses.find(({ id }) => id === "claude") as Harness;
    for (const url of ["https://*.amazonaws.com/x", "https://*", "https://*.com:443"])
      expect(claude.launch(elsewhere(url), PATHS).hosts, url).toEqual([]);
    expect(claude.launch(elsewhere("https://[::1]:8443/x"), PATHS).hosts).toEqual([
      "[::1]:8443",
      "[::1]:8443",
    ]);
  });
});

function elsewhere(url: string): SessionSpec {
  return { agent: "claude", env: { ANTHROPIC_BASE_URL: url }, mcp: { far: { type: "http", url } } };
}

const PATHS = { workspace: "/home/user/workspace", home: "/home/user" };

/** By way of the engine's own reading of credentials. */
async function hostsOf({ harness, spec, credential, content }: Row): Promise<readonly string[]> {
  const home = mkdtempSync(join(tmpdir(), "sluice-lists-home-"));
  try {
    const env = credential !== undefined && "env" in credential ? { [credential.env]: "a-key" } : {};
    if (credential !== undefined && "file" in credential && content !== undefined) {
      mkdirSync(dirname(join(home, credential.file)), { recursive: true });
      writeFileSync(join(home, credential.file), content);
    }
    const found = await readCredentials(harness, spec, { kept: KEPT, host: { env, home } });
    const lent = found.login?.lent;
    const login = lent && "content" in lent ? { login: lent.content } : {};
    return harness.launch(spec, { ...PATHS, env: found.env, ...login }).hosts ?? [];
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

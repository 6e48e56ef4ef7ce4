import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../../scripts/source-graph.mjs";

const read = (file: string): string => readFileSync(join(ROOT, file), "utf8");
const SERVE = execFileSync(join(ROOT, "bin", "sluice"), ["serve", "--help"], { encoding: "utf8" });

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-deploy-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the Dockerfile", () => {
  const text = read("Dockerfile");

  it("ends as an ordinary user, with a volume, a health check and no secret", () => {
    const [, server = ""] = text.split(/^FROM .* AS server$/m);
    expect(server).toMatch(/^USER sluice$/m);
    expect(server).toMatch(/^VOLUME \/data$/m);
    expect(server).toMatch(/^HEALTHCHECK .*\\\n {2}CMD \[.*healthz/m);
    expect(server).toMatch(/^ENTRYPOINT \[.*entrypoint\.sh"\]$/m);
    expect(text).not.toMatch(/TOKEN|API_KEY/);
  });

  it("copies what exists, and its context holds nothing but that", () => {
    const context = read(".dockerignore").trim().split("\n");
    expect(context[0]).toBe("*");
    const allowed = context.slice(1).map((line) => line.replace(/^!/, ""));
    for (const path of allowed) expect(existsSync(join(ROOT, path)), path).toBe(true);
    const built = new Set(["dist", "node_modules"]);
    for (const [, path = ""] of text.matchAll(/\/src\/([\w./-]+)/g)) {
      const [top = ""] = path.split("/");
      expect(allowed.includes(top) || built.has(top), path).toBe(true);
      if (!built.has(top)) expect(existsSync(join(ROOT, path)), path).toBe(true);
    }
  });
});

describe("the entry point of the container", () => {
  /** Runs it with a `sluice` that prints its arguments and the variables that it sees. */
  function start(env: Record<string, string>, ...args: string[]): { said: string; data: string } {
    const data = mkdtempSync(join(folder, "data-"));
    const bin = join(folder, "bin");
    mkdirSync(bin, { recursive: true });
    writeFileSync(join(bin, "sluice"), '#!/bin/sh\necho "$@"\nenv | grep SLUICE || true\n');
    chmodSync(join(bin, "sluice"), 0o755);
    const said = execFileSync("sh", [join(ROOT, "deploy/entrypoint.sh"), ...args], {
      encoding: "utf8",
      env: { PATH: `${bin}:${process.env["PATH"]}`, SLUICE_DATA: data, ...env },
    });
    return { said, data };
  }

  it("keeps a given token in a private file, out of the command line and the environment", () => {
    const secret = join(folder, "secret");
    writeFileSync(secret, "from-a-file\n");
    for (const [env, token] of [
      [{ SLUICE_TOKEN: "from-a-variable" }, "from-a-variable"],
      [{ SLUICE_TOKEN_FILE: secret, SLUICE_TOKEN: "not-this-one" }, "from-a-file"],
    ] as const) {
      const { said, data } = start(env, "--keep", "30d");
      expect(said).toContain(`serve --host 0.0.0.0 --port 7411 --data ${data} --keep 30d\n`);
      expect(said).not.toMatch(/SLUICE_TOKEN|from-a|not-this/);
      expect(readFileSync(join(data, "token"), "utf8")).toBe(`${token}\n`);
      expect(statSync(join(data, "token")).mode & 0o777).toBe(0o600);
    }
  });

  it("leaves the token to the server where none is given, and fails for a missing file", () => {
    const { data } = start({});
    expect(existsSync(join(data, "token"))).toBe(false);
    expect(() => start({ SLUICE_TOKEN_FILE: join(folder, "none") })).toThrow(/No such file/);
  });
});

describe("the other files of deploy/", () => {
  it.each(["deploy/entrypoint.sh", "deploy/compose.yaml", "deploy/sluice.service"])(
    "%s names options of sluice serve that exist",
    (file) => {
      const options = read(file).matchAll(/(?<=["\s])--[a-z][\w-]*/g);
      for (const [option] of options) if (option !== "--build") expect(SERVE).toContain(option);
    },
  );

  it("the systemd unit is valid, and leaves the agents alone when the server restarts", ({ skip }) => {
    const unit = read("deploy/sluice.service");
    expect(unit).toMatch(/^KillMode=process$/m);
    expect(unit).toMatch(/^Delegate=yes$/m);
    if (isMissing("systemd-analyze", "--version")) return skip("systemd-analyze is not installed");
    const file = join(folder, "sluice.service");
    writeFileSync(file, unit.replace("/usr/local/bin/sluice", join(ROOT, "bin", "sluice")));
    const { stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", file], { encoding: "utf8" });
    expect(
      stderr.split("\n").filter((line) => line.includes(file) || line.includes("sluice.service")),
    ).toEqual([]);
  });

  it("nginx passes events on as they come", ({ skip }) => {
    const text = read("deploy/nginx.conf");
    expect(text).toMatch(/proxy_buffering off;/);
    expect(text).toMatch(/proxy_read_timeout 1h;/);
    expect(text).toMatch(/proxy_set_header Host \$host;/);
    const shown = /```nginx\n([\s\S]*?)```/.exec(read("docs/deployment.md"))?.[1] ?? "";
    for (const line of shown.split("\n").filter((line) => /^ {2}proxy_(?!pass)/.test(line)))
      expect(text).toContain(line.trim());
    if (isMissing("nginx", "-v")) return skip("nginx is not installed");
    const main = join(folder, "nginx.conf");
    const plain = text
      .replaceAll(/^ *(?:ssl_|listen \[).*$/gm, "")
      .replace(/^ *listen 443 .*;$/m, "listen 18443;");
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
      .map((name) => `${name}_temp_path ${folder}/${name};`)
      .join(" ");
    const http = `access_log off; ${temporary} ${plain}`;
    writeFileSync(main, `pid ${folder}/pid; error_log stderr; events {} http { ${http} }`);
    const { status, stderr } = spawnSync("nginx", ["-t", "-c", main, "-p", folder], { encoding: "utf8" });
    expect(stderr).toContain("syntax is ok");
    expect(status).toBe(0);
  });

  it("Caddy passes events on as they come", ({ skip }) => {
    const text = read("deploy/Caddyfile");
    expect(text).toMatch(/flush_interval -1/);
    if (isMissing("caddy", "version")) return skip("caddy is not installed");
    const args = ["validate", "--adapter", "caddyfile", "--config", join(ROOT, "deploy/Caddyfile")];
    expect(spawnSync("caddy", args, { encoding: "utf8" }).status).toBe(0);
  });
});

/** Under CI=true nothing is skipped: it throws. */
function isMissing(program: string, versionOption: string): boolean {
  const isThere = spawnSync(program, [versionOption]).status === 0;
  if (!isThere && process.env["CI"] === "true")
    throw new Error(`${program} is not installed, and under CI=true it has to be there`);
  return !isThere;
}

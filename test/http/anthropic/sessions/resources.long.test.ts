import { Buffer } from "node:buffer";
import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toFile } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, collect, failureOf, openAnthropic } from "../anthropic-bench.ts";
import { history, makeSession, ofType, turn } from "../session-bench.ts";
import { openGitHost } from "./git-host.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic();
});
afterAll(() => bench.close());

const upload = async (words: string, name: string) =>
  bench.beta.files.upload({ file: await toFile(Buffer.from(words), name, { type: "text/plain" }) });

describe("J2: a file of a session", () => {
  it("is a copy in the agent's sandbox", async () => {
    const { id } = await makeSession(bench);
    const file = await upload("kept words", "notes.txt");
    const resource = await bench.beta.sessions.resources.add(id, { type: "file", file_id: file.id });
    expect(resource.type).toBe("file");
    expect(resource.file_id).not.toBe(file.id);
    expect(resource.mount_path).toBe(`/mnt/session/uploads/${resource.file_id}`);
    await bench.beta.files.delete(file.id);
    const events = await turn(bench, id, { shell: `cat ${resource.mount_path}` });
    expect(JSON.stringify(ofType(events, "agent.tool_result")[0]?.content)).toContain("kept words");

    expect(await collect(bench.beta.sessions.resources.list(id))).toEqual([resource]);
    expect((await bench.beta.sessions.retrieve(id)).resources).toEqual([resource]);
    const one = { session_id: id };
    expect(await bench.beta.sessions.resources.retrieve(resource.id, one)).toEqual(resource);
    const scoped = await collect(bench.beta.files.list({ scope_id: id }));
    expect(scoped).toMatchObject([{ id: resource.file_id, scope: { type: "session", id } }]);
    const token = () =>
      bench.beta.sessions.resources.update(resource.id, { ...one, authorization_token: "t" });
    expect((await failureOf(bench, token)).error.status).toBe(400);
    expect(await bench.beta.sessions.resources.delete(resource.id, one)).toEqual({
      id: resource.id,
      type: "session_resource_deleted",
    });
    expect(await collect(bench.beta.sessions.resources.list(id))).toEqual([]);
    await expect((await bench.test.engine.files(id)).stat(resource.mount_path)).rejects.toThrow();
  });

  it("may be given at the session's creation, with another path", async () => {
    const file = await upload("from the start", "a.txt");
    const mount_path = "/workspace/data/a.txt";
    const resources = [{ type: "file", file_id: file.id, mount_path }];
    const { id } = await makeSession(bench, { session: { resources } });
    expect((await bench.beta.sessions.retrieve(id)).resources).toMatchObject([{ type: "file", mount_path }]);
    const events = await turn(bench, id, { read: "data/a.txt" });
    expect(JSON.stringify(ofType(events, "agent.tool_result")[0]?.content)).toContain("from the start");
    for (const wrong of ["data/a.txt", "/mnt/../etc/passwd"]) {
      const add = () =>
        bench.beta.sessions.resources.add(id, { type: "file", file_id: file.id, mount_path: wrong });
      expect((await failureOf(bench, add)).error.status).toBe(400);
    }
    await bench.beta.sessions.delete(id);
    expect(await collect(bench.beta.files.list({ scope_id: id }))).toEqual([]);
  });
});

describe("J3: an output file of the agent", () => {
  it("is listed by its session and can be downloaded", async () => {
    const { id } = await makeSession(bench);
    const list = () => collect(bench.beta.files.list({ scope_id: id }));
    expect(await list()).toEqual([]);
    const make = "mkdir -p output/deep && printf one > output/a.txt && printf two > output/deep/b.bin";
    await turn(bench, id, { shell: make });
    const files = await list();
    expect(files.map(({ filename }) => filename).toSorted()).toEqual(["a.txt", "b.bin"]);
    const a = files.find(({ filename }) => filename === "a.txt");
    expect(a).toMatchObject({ mime_type: "text/plain", size_bytes: 3, downloadable: true, scope: { id } });
    const read = async (): Promise<string> => (await bench.beta.files.download(a?.id ?? "")).text();
    expect(await read()).toBe("one");
    await turn(bench, id, { shell: "printf changed > output/a.txt" });
    expect((await list()).map((file) => file.id).toSorted()).toEqual(files.map((file) => file.id).toSorted());
    expect(await read()).toBe("changed");
    for (const words of ["one", "two"]) {
      await turn(bench, id, { shell: `printf ${words} > output/a.txt; touch -d 2001-01-01 output/a.txt` });
      await list();
      expect(await read()).toBe(words);
    }
  });
});

describe("J4: a repository", () => {
  it("is cloned into the workspace, and its token is nowhere", async () => {
    const origin = await mkdtemp(join(tmpdir(), "sluice-origin-"));
    const git = (...args: string[]): void =>
      void execFileSync("git", ["-C", origin, "-c", "user.name=t", "-c", "user.email=t@t", ...args]);
    git("init", "--quiet", "-b", "main");
    const made =
      "printf main > a.txt; printf '#!/bin/sh\\necho ran' > run.sh; chmod +x run.sh; mkdir d; ln -s ../a.txt d/link";
    execFileSync("sh", ["-c", made], { cwd: origin });
    git("add", ".");
    git("commit", "--quiet", "-m", "one");
    git("checkout", "--quiet", "-b", "other");
    execFileSync("sh", ["-c", "printf other > a.txt"], { cwd: origin });
    git("commit", "--quiet", "-am", "two");
    git("checkout", "--quiet", "main");
    const repository = { type: "github_repository", url: `file://${origin}` };
    const token = "ghp_very_secret_token";
    const { id } = await makeSession(bench, {
      session: {
        resources: [
          { ...repository, authorization_token: token, mount_path: "/workspace/one" },
          { ...repository, mount_path: "/workspace/two", checkout: { type: "branch", name: "other" } },
        ],
      },
    });
    const events = await turn(
      bench,
      id,
      { shell: "cat one/a.txt; echo; cat two/a.txt" },
      { shell: "cd one && git -c safe.directory='*' status --porcelain" },
      { shell: "grep -r ghp_[v]ery . && exit 1; true" },
      { shell: "cd one && ./run.sh && readlink d/link && cat d/link && test ! -x a.txt" },
    );
    const results = ofType(events, "agent.tool_result").map(({ content, is_error }) => [
      is_error,
      (content ?? []).map((block) => (block.type === "text" ? block.text : "")).join(""),
    ]);
    expect(results[0]).toEqual([false, "main\nother"]);
    expect(results[1]).toEqual([false, ""]);
    expect(results[2]?.[0]).toBe(false);
    expect(results[3]).toEqual([false, "ran\n../a.txt\nmain"]);
    const session = await bench.beta.sessions.retrieve(id);
    expect(session.resources).toMatchObject([
      { type: "github_repository", url: repository.url, mount_path: "/workspace/one" },
      { checkout: { type: "branch", name: "other" } },
    ]);
    const [resource] = session.resources as { id: string }[];
    const update = { session_id: id, authorization_token: "another_secret_token" };
    const updated = await bench.beta.sessions.resources.update(resource?.id ?? "", update);
    expect(JSON.stringify([session, updated, await history(bench, id)])).not.toContain("secret_token");
    await rm(origin, { recursive: true });
  });

  it("is cloned over HTTP with its token, which is sent and never shown", async () => {
    const token = "ghp_another_secret_token";
    const host = await openGitHost(token);
    const repository = { type: "github_repository", url: `${host.url}/team/project.git` };
    const resources = [{ ...repository, authorization_token: token }];
    const { id } = await makeSession(bench, { session: { resources } });
    const events = await turn(
      bench,
      id,
      {
        shell: "cat /workspace/project/a.txt; git -C /workspace/project -c safe.directory='*' log --oneline",
      },
      { shell: "cat /workspace/project/.git/config; env" },
    );
    const told = JSON.stringify(events);
    expect(told).toContain("over http");
    expect(host.authorizations()).toContain(`Basic ${btoa(`x-access-token:${token}`)}`);
    const session = await bench.beta.sessions.retrieve(id);
    expect(session.resources).toMatchObject([{ url: repository.url, mount_path: "/workspace/project" }]);
    const seen = JSON.stringify([session, await history(bench, id)]);
    for (const secret of [token, btoa(`x-access-token:${token}`)]) expect(seen).not.toContain(secret);

    // A missing or wrong token is reported, the run continues, and a correct token is tried later.
    for (const authorization_token of [undefined, "ghp_wrong_secret_token"]) {
      const given = authorization_token === undefined ? {} : { authorization_token };
      const refused = await makeSession(bench, { session: { resources: [{ ...repository, ...given }] } });
      const after = await turn(bench, refused.id, { say: "on" });
      expect(after.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
      const all = await history(bench, refused.id);
      expect(ofType(all, "session.error").map(({ error }) => error)).toMatchObject([
        { type: "repository_authentication_error", repository_url: repository.url },
      ]);
      expect(JSON.stringify(all)).not.toContain("wrong_secret");
      const [resource] = (await bench.beta.sessions.retrieve(refused.id)).resources as { id: string }[];
      const renewed = { session_id: refused.id, authorization_token: token };
      await bench.beta.sessions.resources.update(resource?.id ?? "", renewed);
      const read = await turn(bench, refused.id, { shell: "cat /workspace/project/a.txt" });
      expect(JSON.stringify(ofType(read, "agent.tool_result"))).toContain("over http");
    }
    await host.close();
  });

  it("that cannot be cloned is reported, and the session continues", async () => {
    const url = "file:///nowhere/to/be-found.git";
    const { id } = await makeSession(bench, { session: { resources: [{ type: "github_repository", url }] } });
    const events = await turn(bench, id, { say: "on" });
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    expect(ofType(await history(bench, id), "session.error").map(({ error }) => error)).toMatchObject([
      { type: "repository_not_found_error", repository_url: url, retry_status: { type: "retrying" } },
    ]);
    const wrong = [{ type: "github_repository", url: "https://me:secret@example.com/a/b" }];
    await expect(makeSession(bench, { session: { resources: wrong } })).rejects.toMatchObject({
      status: 400,
    });
  });
});

import { describe, expect, it } from "vitest";
import { createRedactor } from "../../src/sessions/secrets/redact.ts";
import { createScrub } from "../../src/sessions/secrets/scrub.ts";

describe("scrubbing a recording", () => {
  const identity = {
    home: "/home/ada",
    user: "ada",
    host: "quux-box",
    name: "Ada Q. Lovelace",
    email: "ada@quux.test",
  };
  const scrub = createScrub({
    identity,
    redact: createRedactor(new Map([["API_KEY", 'se"cret-123']])).text,
    places: [
      ["/home/ada/work/my.app", "/home/user/workspace"],
      ["/home/ada/.local/share/sluice/sandboxes/sbx_1/home", "/home/user"],
    ],
  });

  it.each([
    [
      "a folder before the one that it lies in",
      "/home/ada/work/my.app/src in /home/ada/x",
      "/home/user/workspace/src in /home/user/x",
    ],
    [
      "the agent's own home",
      "/home/ada/.local/share/sluice/sandboxes/sbx_1/home/.claude",
      "/home/user/.claude",
    ],
    ["a path at the end of a sentence", "It is /home/ada.", "It is /home/user."],
    [
      "the folder name that an agent makes of a path",
      "projects/-home-ada-work-my-app/1.jsonl",
      "projects/-home-user-workspace/1.jsonl",
    ],
    ["names as words", "ada@quux-box:~$ whoami", "user@host:~$ whoami"],
    [
      "a name behind an escaped newline",
      String.raw`{"text":"by\nAda Q. Lovelace <ada@quux.test>"}`,
      String.raw`{"text":"by\nUser Name <user@example.com>"}`,
    ],
    [
      "a secret, also as JSON writes it",
      String.raw`{"a":"se\"cret-123"} se"cret-123`,
      `{"a":"[redacted:API_KEY]"} [redacted:API_KEY]`,
    ],
  ])("%s", (_, text, clean) => {
    expect(scrub(text)).toBe(clean);
    expect(scrub(clean)).toBe(clean);
  });

  it("leaves longer words and common names alone", () => {
    expect(scrub("adamant canada /home/adam")).toBe("adamant canada /home/adam");
    const plain = createScrub({
      identity: { home: "/root", user: "root", host: "localhost" },
      redact: (text) => text,
      places: [],
    });
    expect(plain("root at localhost in /root/x")).toBe("root at localhost in /home/user/x");
  });
});

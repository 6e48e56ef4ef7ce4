import { afterEach, expect, it } from "vitest";
import { describeFortress } from "./fortress-bench.ts";
import { ANSWERS, SECRET, expectNothing, listeners, prepare } from "./heist.ts";

afterEach(async () => {
  for (const listener of listeners.splice(0)) {
    listener.closeAllConnections();
    await new Promise<void>((resolve) => listener.close(resolve));
  }
});

describeFortress("a lent secret", (user) => {
  it("is in no answer of its host, in any form, also to requests without it", async () => {
    const { echo, seen, run } = await prepare(user);
    const ways = Object.keys(ANSWERS);
    const loot = await run(
      `curl -sS -H "X-Key: $KEY" ${echo}/keep
       for way in ${ways.join(" ")}; do echo "<$way>"; curl -sSi -H 'Accept-Encoding: gzip, br' ${echo}/$way; echo; done
       for way in gzip deflate br; do echo "<undone $way>"; curl -sS --compressed ${echo}/$way; echo; done`,
    );
    expect(seen[0]?.key).toBe(SECRET);
    expectNothing(loot);
    const [, placeholder = "?"] = /it is (SLUICE_SECRET_\w+)\./.exec(loot) ?? [];
    for (const way of [
      "slow",
      "json",
      "url",
      "html",
      "hex",
      "header",
      "status",
      "gzip",
      "deflate",
      "br",
      "twice",
      "range",
    ]) {
      expect(loot.split(`<${way}>`)[1]?.split("<")[0], way).toContain(placeholder);
    }
    for (const way of ["unknown", "piece"])
      expect(loot.split(`<${way}>`)[1], way).toMatch(/^\s*HTTP\/1\.1 502 /);
  });

  it("is not read in pieces", async () => {
    const { echo, run } = await prepare(user);
    const loot = await run(
      `curl -sS -o /dev/null -H "X-Key: $KEY" ${echo}/keep
       for i in 0 1 2 3 4 5; do curl -sS -r $((i*5))-$((i*5+4)) ${echo}/range; curl -sS "${echo}/piece?from=$((i*6))"; done`,
    );
    for (let at = 0; at + 5 <= SECRET.length; at += 5) expect(loot).not.toContain(SECRET.slice(at, at + 5));
    expect(loot).toContain("SLUICE_SECRET_");
  });

  it("is in no message of a WebSocket, and goes into no other protocol", async () => {
    const { echo, run } = await prepare(user);
    const ask = (protocol: string, headers: string) =>
      `curl -sSi --http1.1 -m 20 -H 'Connection: Upgrade' -H 'Upgrade: ${protocol}' ${headers} ${echo}/socket; echo`;
    const socket = `-H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==' -H 'Sec-WebSocket-Extensions: permessage-deflate'`;
    const loot = await run(
      [
        ask("websocket", `${socket} -H "X-Key: $KEY"`),
        "echo '<later>'",
        ask("websocket", socket),
        "echo '<other>'",
        ask("h2c", `-H "X-Key: $KEY"`),
      ].join("\n"),
    );
    expectNothing(loot);
    const [first = "", ...rest] = loot.split(/<later>|<other>/);
    expect(first).toContain("101 Switching Protocols");
    expect(first.toLowerCase()).toContain("x-extensions: none");
    expect(first).toMatch(/whole SLUICE_SECRET_/);
    expect(rest[1]).toContain("403");
    expect(rest[1]).toContain("HTTP/1.1 and WebSockets can");
  });

  it("goes by TLS only, and the agent is told why", async () => {
    const { plain, echo, seen, run } = await prepare(user, { header: true, body: true });
    const loot = await run(
      `curl -sS -H "X-Key: $KEY" ${echo}/keep
       curl -sS -H "X-Key: $KEY" ${plain}/keep
       curl -sS -u "me:$KEY" ${plain}/keep
       curl -sS -d "$KEY" ${plain}/keep
       curl -sS --noproxy '' -H "X-Key: $KEY" ${plain}/keep
       bash -c 'exec 3<>/dev/tcp/127.0.0.1/${new URL(plain).port}; printf "\\r\\nGET /keep HTTP/1.1\\r\\nHost: x\\r\\nX-Key: %s\\r\\nConnection: close\\r\\n\\r\\n" "$KEY" >&3; cat <&3'
       curl -sS ${plain}/plain`,
    );
    expect(loot).toContain("secrets go by TLS only");
    expectNothing(loot);
    expect(seen.filter(({ key }) => key === SECRET).every(({ isSecure }) => isSecure)).toBe(true);
    expect(seen.filter(({ body }) => body.includes("9f2c"))).toEqual([]);
    // Its plain http still answers, and without the secret that it knows.
    expect(loot).toMatch(/it is SLUICE_SECRET_\w+\./);
  });

  it("is switched off by no coding of a request", async () => {
    const { echo, seen, run } = await prepare(user, { header: true, body: true });
    const loot = await run(
      `for coding in x gzip identity br,x; do
         curl -sS -H "X-Key: $KEY" -H "Content-Encoding: $coding" -d "k=$KEY" ${echo}/plain; echo " $coding"; done
       printf 'k=%s' "$KEY" | gzip | curl -sS -H 'Content-Encoding: gzip' -H "X-Key: $KEY" --data-binary @- ${echo}/plain
       curl -sS -H 'Transfer-Encoding: gzip, chunked' -H "X-Key: $KEY" -d "k=$KEY" ${echo}/plain`,
    );
    expectNothing(loot);
    expect(loot).toContain("cannot be read here");
    for (const { body } of seen) expect(["", `k=${SECRET}`]).toContain(body);
    expect(seen.filter(({ body }) => body === `k=${SECRET}`)).toHaveLength(2);
  });

  it("is not put into headers that are shown to others", async () => {
    const { echo, seen, run } = await prepare(user);
    await run(
      `curl -sS -A "$KEY" -e "$KEY" -H "X-Forwarded-For: $KEY" -H "Accept: $KEY" -H "X-Key: $KEY" ${echo}/keep`,
    );
    expect(seen.map(({ key }) => key)).toEqual([SECRET]);
    expect(seen[0]?.others).toContain("SLUICE_SECRET_");
    expect(seen[0]?.others).not.toContain("9f2c");
  });
});

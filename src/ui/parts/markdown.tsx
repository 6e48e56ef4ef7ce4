import type { Token, Tokens } from "marked";
import type { ComponentChildren, JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Code } from "./code.tsx";
import { GrowingText, split } from "./growing-text.ts";

/** Blocks that are shown before somebody asks for the rest. */
const FIRST_BLOCKS = 120;
const MAX_DEPTH = 30;

/** Characters of the texts whose tokens are kept. */
const MAX_CACHED = 500_000;

/** Markdown as elements. No HTML string is made, so there is nothing to sanitise. */
export function Markdown({ text, open = false }: { text: string; open?: boolean }): JSX.Element {
  const [shown, setShown] = useState(FIRST_BLOCKS);
  const growing = useRef(new GrowingText());
  const made = useRef(new WeakMap<Token, ComponentChildren>());
  const tokens = open ? growing.current.read(text) : lex(text);
  // A block that is the same token is the same element, and is not compared again.
  const toBlock = (token: Token, index: number): ComponentChildren => {
    const known = made.current.get(token);
    if (known !== undefined) return known;
    const isLast = open && index === tokens.length - 1;
    const element =
      isLast && token.type === "code" ? (
        <Code key={index} text={(token as Tokens.Code).text} />
      ) : (
        block(token, index, 0)
      );
    if (!isLast) made.current.set(token, element);
    return element;
  };
  return (
    <div class="markdown">
      {tokens.slice(0, shown).map(toBlock)}
      {tokens.length > shown && (
        <button class="more" onClick={() => setShown(shown + 500)}>
          Show {tokens.length - shown} more blocks
        </button>
      )}
    </div>
  );
}

const cache = new Map<string, Token[]>();
let cached = 0;

function lex(text: string): Token[] {
  const known = cache.get(text);
  if (known) return known;
  const tokens = split(text).filter(({ type }) => type !== "space");
  cache.set(text, tokens);
  cached += text.length;
  for (const oldest of cache.keys()) {
    if (cached <= MAX_CACHED || oldest === text) break;
    cache.delete(oldest);
    cached -= oldest.length;
  }
  return tokens;
}

function block(token: Token, key: number, depth: number): ComponentChildren {
  if (depth > MAX_DEPTH) return token.raw;
  switch (token.type) {
    case "heading": {
      // The page's own headings come before those of a message.
      const level = Math.min((token as Tokens.Heading).depth + 2, 6);
      const Tag = `h${level}` as "h3";
      return <Tag key={key}>{inline(token, depth)}</Tag>;
    }
    case "code": {
      const { text, lang } = token as Tokens.Code;
      return <Code key={key} text={text} language={lang ?? ""} />;
    }
    case "blockquote":
      return <blockquote key={key}>{children(token, depth)}</blockquote>;
    case "list": {
      const { ordered, items, start } = token as Tokens.List;
      const Tag = ordered ? "ol" : "ul";
      return (
        <Tag key={key} {...(ordered && typeof start === "number" && { start })}>
          {items.slice(0, 500).map((item, index) => (
            <li key={index}>
              {item.task && (
                <input type="checkbox" checked={item.checked === true} disabled aria-label="task" />
              )}
              {children(item, depth)}
            </li>
          ))}
        </Tag>
      );
    }
    case "table":
      return <Table key={key} table={token as Tokens.Table} depth={depth} />;
    case "hr":
      return <hr key={key} />;
    case "paragraph":
      return <p key={key}>{inline(token, depth)}</p>;
    default:
      return span(token, key, depth);
  }
}

function Table({ table, depth }: { table: Tokens.Table; depth: number }): JSX.Element {
  return (
    <div class="table" tabIndex={0} role="region" aria-label="table">
      <table>
        <thead>
          <tr>
            {table.header.map((cell, index) => (
              <th key={index} scope="col">
                {inline(cell, depth)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.slice(0, 200).map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={column}>{inline(cell, depth)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

type Parent = { tokens?: Token[] | undefined; text?: string; raw?: string };

function children(token: unknown, depth: number): ComponentChildren {
  const { tokens, text } = token as Parent;
  return tokens ? tokens.map((one, index) => block(one, index, depth + 1)) : text;
}

function inline(token: unknown, depth: number): ComponentChildren {
  const { tokens, text } = token as Parent;
  return tokens ? tokens.map((one, index) => span(one, index, depth + 1)) : text;
}

function span(token: Token, key: number, depth: number): ComponentChildren {
  if (depth > MAX_DEPTH) return token.raw;
  switch (token.type) {
    case "strong":
      return <strong key={key}>{inline(token, depth)}</strong>;
    case "em":
      return <em key={key}>{inline(token, depth)}</em>;
    case "del":
      return <del key={key}>{inline(token, depth)}</del>;
    case "codespan":
      return <code key={key}>{(token as Tokens.Codespan).text}</code>;
    case "br":
      return <br key={key} />;
    case "link":
      return (
        <SafeLink key={key} href={(token as Tokens.Link).href}>
          {inline(token, depth)}
        </SafeLink>
      );
    case "image": {
      // A picture of another host would tell that host who reads what.
      const { href, text } = token as Tokens.Image;
      return (
        <SafeLink key={key} href={href}>
          {text || href}
        </SafeLink>
      );
    }
    case "escape":
    case "text": {
      const { tokens } = token as Parent;
      return tokens ? inline(token, depth) : (token as Tokens.Text).text;
    }
    default:
      // HTML is shown as it was written.
      return token.raw;
  }
}

/** A link to the web. Every other address is only text. */
export function SafeLink({ href, children }: { href: string; children: ComponentChildren }): JSX.Element {
  if (!/^(?:https?|mailto):/i.test(href)) return <span class="no-link">{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}

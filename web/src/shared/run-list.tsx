import { useEffect, useState } from "preact/hooks";
import type { RunListing } from "../generated/RunListing";
import { text } from "../text/en";
import { Bar, Notice } from "./parts";
import { apiUrl, root } from "./place";

/** The server's own page, where it hosts more than one run. */
export function RunList({ to }: { to: string }) {
  const [runs, setRuns] = useState<RunListing[] | null>(null);
  const [lost, setLost] = useState(false);
  useEffect(() => {
    fetch(`${apiUrl}/runs`)
      .then((answer) => answer.json())
      .then(setRuns, () => setLost(true));
  }, []);
  return (
    <div class="frame">
      <Bar lit={false} />
      <main class="verdict">
        <h1>{text.list.title}</h1>
        {lost && <Notice bad title={text.notice.offline} />}
        {runs === null && !lost && <p>{text.loading}</p>}
        {runs?.length === 0 && <p>{text.list.empty}</p>}
        <dl class="facts">
          {runs?.map((run) => (
            <div key={run.id}>
              <dt>{run.state}</dt>
              <dd>
                <a href={new URL(`r/${run.id}${to}`, root).href}>{run.name}</a>
              </dd>
            </div>
          ))}
        </dl>
      </main>
    </div>
  );
}

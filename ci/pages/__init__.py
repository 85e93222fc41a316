"""The documentation as a site: mkdocs over ``docs/``, with what is made when it is built.

- ``__main__``: builds the site, strictly, and has the built pages checked;
- ``hooks``: what mkdocs calls: pages of options, drawings, navigation;
- ``options``: the options of a command as Markdown, from the command itself;
- ``sequence``, ``boxes``, ``axis``: three kinds of drawings, from their text to SVG (``svg``);
- ``captures``: pictures of real runs in ``docs/captures``; made anew with ``--captures`` alone;
- ``links``: the links, anchors and images of the built pages.

Whatever is not as it should be ends the build: a page outside the navigation, a broken link,
a missing anchor, something that a page would load from another host, a command without a page.
"""
